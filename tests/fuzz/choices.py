"""Bytes of a fuzzer -> choices: the same bytes make the same ones, in every process. Knows nothing of what is chosen.

Bytes are taken from the front, and when they are used up every choice is the first one: so a shorter input means
something too, and a fuzzer that changes a byte changes one choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

# Numbers at which lengths, offsets and positions go wrong, if they do.
EDGES = (0, 1, 7, 12, 19, 20, 31, 32, 63, 64, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)
WIDE_EDGES = (*EDGES, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


class Choices:
    """Choices that an input makes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """How many bytes are still to be taken."""
        return len(self._data) - self._at

    def below(self, bound: int) -> int:
        """Choose a whole number, 0 up to but not including `bound`."""
        width = max((bound - 1).bit_length() + 7, 8) // 8
        return int.from_bytes(self._raw(width), "little") % bound

    def flag(self) -> bool:
        """Choose yes or no."""
        return self.below(2) == 1

    def of(self, things: Sequence[T]) -> T:
        """Choose one thing."""
        return things[self.below(len(things))]

    def number(self, width: int) -> int:
        """Choose a number of so many bytes: any, or one of the edges."""
        if self.flag():
            return self.of(WIDE_EDGES) % (1 << 8 * width)
        return int.from_bytes(self._raw(width), "little")

    def some(self, most: int) -> bytes:
        """Choose at most so many bytes."""
        return self._raw(self.below(min(most, self.left) + 1) if self.left else 0)

    def rest(self) -> bytes:
        """Take all that is left."""
        return self._raw(self.left)

    def text(self, most: int) -> str:
        """Choose text of at most so many bytes."""
        return self.some(most).decode("utf-8", "replace")

    def _raw(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        self._at += len(taken)
        return taken


def mangled(data: bytes, choices: Choices) -> bytes:
    """Return data with one thing changed: bits, numbers, pieces gone, doubled or moved, the end."""
    at = choices.below(len(data) + 1)
    how = choices.below(8)
    if how == 0 and at < len(data):
        return data[:at] + bytes([data[at] ^ (1 << choices.below(8))]) + data[at + 1 :]
    if how == 1:
        new = choices.some(16)
        return data[:at] + new + data[at + len(new) :]
    if how == 2:
        return data[:at] + choices.some(64) + data[at:]
    if how == 3:
        return data[:at] + data[at + 1 + choices.below(64) :]
    if how == 4:
        return data[:at]
    if how == 5:
        width = choices.of((2, 4, 8))
        return data[:at] + choices.number(width).to_bytes(width, "little") + data[at + width :]
    if how == 6:
        start, length = choices.below(len(data) + 1), 1 + choices.below(128)
        piece = data[start : start + length]
        return data[:at] + piece + data[at + len(piece) :]
    return data + bytes(choices.below(256)) + choices.some(64)


def mangled_text(data: bytes, choices: Choices) -> bytes:
    """Return JSON, or other text, with one word of it replaced by something odd, or as `mangled` does."""
    if choices.flag():
        return mangled(data, choices)
    at = choices.below(len(data) + 1)
    stop = min((end for end in (data.find(mark, at) for mark in (b",", b"}", b"]")) if end >= 0), default=at)
    start = max(data.rfind(mark, 0, stop) for mark in (b":", b",", b"[", b"{")) + 1
    return data[:start] + choices.of(ODD) + data[stop:]


ODD = (
    b"null",
    b"true",
    b"0",
    b"-1",
    b"1.5",
    b"1e400",
    b"NaN",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551616",
    b'""',
    b'"x"',
    b'"\\ud800"',
    b"[]",
    b"{}",
    b"[[]]",
    b'{"a":1}',
    b"9" * 5000,
    b"[" * 3000,
    b"[" * 3000 + b"]" * 3000,
    b'{"a":' * 3000,
)
