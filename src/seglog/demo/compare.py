"""Compare two results row by row, exactly: missing, superfluous and different rows. Knows nothing of their origin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

K = TypeVar("K")
SHOWN = 10


class Comparison(NamedTuple):
    """rows: expected rows; differing: how many rows are not as expected; lines: the first of them as text."""

    rows: int
    differing: int
    lines: tuple[str, ...]


def compare(name: str, expected: Mapping[K, tuple[object, ...]], actual: Mapping[K, tuple[object, ...]]) -> Comparison:
    """Compare two results by key; `name` names the result in the lines. Floats must be equal bit by bit."""
    keys = sorted((key for key in expected.keys() | actual.keys() if expected.get(key) != actual.get(key)), key=str)
    lines = [_line(name, key, expected.get(key), actual.get(key)) for key in keys[:SHOWN]]
    if len(keys) > SHOWN:
        lines.append(f"{name}: and {len(keys) - SHOWN} more rows")
    return Comparison(len(expected), len(keys), tuple(lines))


def _line(name: str, key: object, expected: tuple[object, ...] | None, actual: tuple[object, ...] | None) -> str:
    if actual is None:
        return f"{name}: {key} is missing; expected {tuple(expected or ())}"
    if expected is None:
        return f"{name}: {key} should not be there; it is {tuple(actual)}"
    return f"{name}: {key} is {tuple(actual)}; expected {tuple(expected)}"
