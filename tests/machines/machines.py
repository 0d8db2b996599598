"""State machines of the tests, and what their states must be: computed without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

import seglog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from seglog.record import Record


@dataclass(frozen=True)
class Chain:
    """A hash chain over everything that a record holds: any record missed, repeated or exchanged changes the state."""

    first: int = 0

    def initial(self) -> int:
        return self.first

    def apply(self, state: int, record: Record) -> int:
        return crc32(repr(tuple(record)).encode(), state)

    def encode(self, state: int) -> bytes:
        return b"%d" % state

    def decode(self, data: bytes) -> int:
        return int(data)


def chained(records: Iterable[Record], state: int = 0) -> int:
    """Return the state of a `Chain` after records, by a plain loop."""
    for record in records:
        state = crc32(repr(tuple(record)).encode(), state)
    return state


class Heard:
    """A machine whose state is changed in place: the offsets that it applied."""

    def initial(self) -> list[int]:
        return []

    def apply(self, state: list[int], record: Record) -> list[int]:
        state.append(record.offset)
        return state

    def encode(self, state: list[int]) -> bytes:
        return b" ".join(b"%d" % offset for offset in state)

    def decode(self, data: bytes) -> list[int]:
        return [int(offset) for offset in data.split()]


class NoDecode:
    """A machine of the protocol of Spark before it had snapshots."""

    def initial(self) -> int:
        return 0

    def apply(self, state: int, record: Record) -> int:
        return state + len(record.value or b"")

    def encode(self, state: int) -> bytes:
        return b"%d" % state


class Refuses(Chain):
    """A machine that raises at a value."""

    def apply(self, state: int, record: Record) -> int:
        if record.value == b"refuse":
            raise ZeroDivisionError("no such order")
        return super().apply(state, record)


def fill(log: seglog.Log, count: int, word: str = "value", keys: int = 5) -> None:
    for number in range(count):
        log.append(b"%s %d" % (word.encode(), number), key=b"%d" % (number % keys), headers=[("n", b"%d" % number)])


def states_at(log: seglog.Log) -> Iterator[tuple[int, Any]]:
    """Yield each offset of a log with the state of a `Chain` there."""
    state = 0
    yield log.lowest_offset, state
    for record in log.scan():
        state = chained([record], state)
        yield record.offset + 1, state
