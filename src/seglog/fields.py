"""Frozen dataclasses whose fields are settings: they check them, and know which of them were given."""

from __future__ import annotations

import functools
from dataclasses import fields
from datetime import timedelta
from typing import Any, TypeVar

from seglog.settings import declared

Seconds = float | timedelta


def microseconds(seconds: float | timedelta | None) -> int | None:
    """Return a time that a setting has in microseconds."""
    return None if seconds is None else round(float(seconds) * 1_000_000)  # type: ignore[arg-type] # settled to float


def settle(config: object, name: str, value: object) -> None:
    """Set a field of a frozen config: only during its own validation."""
    object.__setattr__(config, name, value)


class Fields:
    """A frozen dataclass that records which fields were given; the others can be taken from a stored config."""

    __slots__ = ("_given",)
    _given: frozenset[str]

    def _check(self, prefix: str = "") -> None:
        """Check each setting, and keep it in its usual form. Raises ConfigError."""
        for name, one in declared(type(self)).items():
            settle(self, name, one.checked(getattr(self, name), prefix + name))

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the given fields in copies and in other processes."""
        return restored, (type(self), self._values(), self._given)

    def given(self) -> dict[str, Any]:
        """Return the fields that were given, by name."""
        return {name: value for name, value in self._values().items() if name in self._given}

    def _values(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type] # it is a dataclass

    def to_json(self) -> dict[str, Any]:
        """Return the plain values that are stored. Those of later versions only if they are set: earlier ones do not
        know them, and must not open a log with them.
        """
        values = {name: (getattr(self, name), one) for name, one in declared(type(self)).items()}
        return {name: value for name, (value, one) in values.items() if not one.setting.later or value != one.default}


def restored(kind: type[Config], values: dict[str, Any], given: frozenset[str]) -> Config:
    """Return a config of a pickle: with which values, and which of them were given."""
    config = kind(**values)
    settle(config, "_given", given)
    return config


Config = TypeVar("Config", bound=Fields)


def noting(kind: type[Config]) -> type[Config]:
    """Make a dataclass record which of its fields are given."""
    init = kind.__init__

    @functools.wraps(init)
    def noting(self: Config, /, *args: Any, **fields: Any) -> None:
        init(self, *args, **fields)
        means_default = {"segment_overflow_bytes"} if fields.get("segment_overflow_bytes", 0) is None else set()
        settle(self, "_given", frozenset(fields) - means_default - {"_moved"})

    kind.__init__ = noting  # type: ignore[method-assign,assignment] # it accepts the same arguments
    return kind
