"""The records of consumer groups: an entry or ValueError; a log of them is a book, or CorruptLog."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import seglog
from seglog.errors import CorruptLog
from seglog.storage import MemoryStorage
from seglog.topic.groups.records import GroupRecord, OffsetRecord, decode, encode
from seglog.topic.groups.registry import Book
from seglog.topic.groups.state import Crew, Enrolled, Move
from tests.fuzz.choices import Choices, mangled_text

if TYPE_CHECKING:
    from collections.abc import Iterator

CREW = Crew(
    3,
    {"a": Enrolled(("orders",), 30.0, False), "b": Enrolled(("orders", "x"), 5.5, True)},
    {("orders", 0): "a", ("orders", 1): "b", ("x", 0): "b"},
    {("orders", 1): Move("a", 2), ("x", 0): Move(None, 3)},
)
WRITTEN = [
    encode(OffsetRecord("group", ("orders", 1), 12)),
    encode(OffsetRecord("group", ("orders", 1), None)),
    encode(GroupRecord("group", CREW)),
    encode(GroupRecord("group", None)),
]


def seeds() -> Iterator[bytes]:
    yield b""
    yield bytes([0, 0, 2, 3])
    for number in range(0, 250, 12):
        yield bytes([2, 2, 1, number, number % 21, 1, 4, number, number % 21])
        yield bytes([0, 1, 1, number, number % 21, 1, 4, number, number % 21])


def target(data: bytes) -> None:
    choices = Choices(data)
    records = [_record(choices) for _ in range(1 + choices.below(3))]
    sound = [_check(key, value) for key, value in records]
    if choices.flag():
        _check_book(records, all(sound))


def _record(choices: Choices) -> tuple[bytes, bytes | None]:
    key, value = choices.of(WRITTEN)
    if choices.flag():
        key = mangled_text(key, choices)
    if choices.flag():
        value = mangled_text(value or b"{}", choices)
    return key, value


def _check(key: bytes, value: bytes | None) -> bool:
    """Read a record twice over; return whether it is one."""
    try:
        entry = decode(key, value)
    except ValueError:
        return False
    assert decode(*encode(entry)) == entry
    return True


def _check_book(records: list[tuple[bytes, bytes | None]], sound: bool) -> None:
    with seglog.open(MemoryStorage()) as log:
        for key, value in records:
            log.append(value, key=key)
        with suppress(CorruptLog):
            Book(log)
            assert sound
            return
        assert not sound
