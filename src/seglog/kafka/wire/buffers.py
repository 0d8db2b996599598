"""Read and write the primitive values of Kafka's protocol: big-endian numbers, strings, bytes, lengths."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NoReturn

from seglog.errors import InvalidArgument

NUMBERS = {size: struct.Struct(f">{letter}") for size, letter in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))}
MOST_VARINT_BYTES = 5
Buffer = bytes | bytearray | memoryview
APART_BYTES = 4096
"""Size from which data becomes a part of its own in a message, instead of being copied."""


class Malformed(InvalidArgument):
    """The bytes of a request are not those of the message that its head names."""


class Reader:
    """The bytes of one message, read from the front."""

    __slots__ = ("bytes", "position")

    def __init__(self, data: Buffer, position: int = 0) -> None:
        self.bytes = memoryview(data).cast("B")
        self.position = position

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return len(self.bytes) - self.position

    def number(self, size: int) -> int:
        """Read a signed number of 1, 2, 4 or 8 bytes."""
        start = self._advance(size)
        value: int = NUMBERS[size].unpack_from(self.bytes, start)[0]
        return value

    def varint(self) -> int:
        """Read an unsigned number of variable length, up to 32 bits."""
        try:
            value, self.position = varint_at(self.bytes, self.position)
        except IndexError as error:
            raise Malformed(f"the message ends at byte {len(self.bytes)}, within a number") from error
        return value

    def data(self, size: int) -> memoryview:
        """Read `size` bytes, without a copy."""
        start = self._advance(size)
        return self.bytes[start : self.position]

    def text(self, size: int) -> str:
        """Read `size` bytes of UTF-8."""
        try:
            return str(self.data(size), "utf-8")
        except UnicodeDecodeError as error:
            raise Malformed(f"a string before byte {self.position} is not UTF-8") from error

    def _advance(self, size: int) -> int:
        start = self.position
        if size < 0 or size > len(self.bytes) - start:
            refuse_end(len(self.bytes), start)
        self.position = start + size
        return start


def refuse_end(end: int, start: int) -> NoReturn:
    """Refuse a message that ends at `end`, within a field that begins at `start`."""
    raise Malformed(f"the message ends at byte {end}, within a field that begins at {start}")


def varint_at(data: memoryview, position: int) -> tuple[int, int]:
    """Return an unsigned number of variable length, up to 32 bits, and the position after it.

    Raises IndexError if the data ends within it, Malformed if it is longer.
    """
    value = 0
    for number in range(MOST_VARINT_BYTES):
        byte = data[position + number]
        value |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return value, position + number + 1
    raise Malformed(f"a number at byte {position} has more than {MOST_VARINT_BYTES} bytes")


class Writer:
    """A message as it is put together: buffers that are sent one after another."""

    __slots__ = ("_parts", "tail")

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self.tail = bytearray()

    def number(self, size: int, value: int) -> None:
        """Write a signed number of 1, 2, 4 or 8 bytes."""
        self.tail += NUMBERS[size].pack(value)

    def varint(self, value: int) -> None:
        """Write an unsigned number of variable length."""
        while value > 0x7F:
            self.tail.append(value & 0x7F | 0x80)
            value >>= 7
        self.tail.append(value)

    def data(self, data: Buffer) -> None:
        """Write bytes; long ones are not copied, and must not change until they are sent."""
        view = memoryview(data).cast("B")
        if len(view) < APART_BYTES:
            self.tail += view
            return
        self._parts += (self.tail, view)
        self.tail = bytearray()

    def parts(self) -> list[Any]:
        """Return the buffers of the message."""
        return [*self._parts, self.tail] if self.tail else list(self._parts)


def size_of(parts: list[Any]) -> int:
    """Return the bytes of a message's buffers."""
    return sum(len(part) for part in parts)


def pieces_of(parts: list[Any], least: int) -> Iterator[list[Any]]:
    """Yield the buffers of a message, cut and joined to pieces of `least` to twice as many bytes; the last has less."""
    piece: list[Any] = []
    for part in parts:
        for position in range(0, len(part), least):
            piece.append(part[position : position + least])
            if size_of(piece) >= least:
                yield piece
                piece = []
    if piece:
        yield piece
