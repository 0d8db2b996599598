"""Pins and leases, which strangers may have written: a number or "holds everything", never an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.format import filename
from seglog.log.leases import _leased_version, oldest_leased_version
from seglog.log.pins import decode_pin, encode_pin, read_pins
from seglog.storage import MemoryStorage
from tests.fuzz.choices import Choices, mangled_text
from tests.fuzz.targets.manifest import checked

if TYPE_CHECKING:
    from collections.abc import Iterator

AS_IT_IS, CHECKED, CHANGED = b"\0", b"\1", b"\2"
PIN = encode_pin(42, 1_700_000_000_000_000)


def seeds() -> Iterator[bytes]:
    yield b""
    yield AS_IT_IS + PIN
    yield AS_IT_IS + b"12\n"
    yield AS_IT_IS + b" 1_0"
    for number in range(0, 64, 4):
        yield CHANGED + bytes([1, number, number % 21])


def target(data: bytes) -> None:
    kind, text = data[:1], data[1:]
    if kind == CHANGED:
        text = mangled_text(PIN, Choices(text))
    if kind in (CHECKED, CHANGED):
        text = checked(text)
    pin = decode_pin(text)
    offset = None if pin is None else pin.offset
    assert offset is None or (offset >= 0 and type(offset) is int)
    storage = MemoryStorage()
    storage.make([filename.PINS, filename.READERS])
    storage.create(filename.pin_file("follower")).pwrite(text, 0)
    pinned = read_pins(storage)["follower"]
    assert pinned == (offset if offset is not None and len(text) <= 4096 else 0)
    name = filename.lease_file("reader")
    storage.create(name).pwrite(text, 0)
    held = storage.try_lock(name, shared=True)
    assert held is not None
    assert oldest_leased_version(storage) == _leased_version(storage, name)
    held.release()
    assert oldest_leased_version(storage) is None
