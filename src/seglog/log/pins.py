"""Pins: how followers keep compaction from removing tombstones that they have not read yet.

A pin is a small file `pins/<name>.pin` of the log with the next offset that a follower will read. Unlike a lease it
outlives its process, and it protects records, not files. Any process with access to the directory may set one without
the writer's lock: a pin is identified by its name alone.

    {"format": 1, "offset": 42, "updated": <us>, "epoch": 3}
    {"check":"<XXH64 of the line before>"}

The epoch is that of the offset in a copy that has every record before it on its disk (see `copies`); others have none.

A pin that cannot be read holds everything, as if its follower were at offset 0. A pin affects the compactions that are
planned after it was set. Knows nothing of compaction itself.
"""

from __future__ import annotations

import errno
import json
import secrets
from collections.abc import Iterator
from typing import NamedTuple

from xxhash import xxh64_intdigest

from seglog.clock import Clock, system_clock
from seglog.errors import InvalidArgument, SeglogError, StorageError
from seglog.format import filename
from seglog.format.foreign import UNREADABLE
from seglog.log.staging import checked_name
from seglog.storage import Storage

VERSION = 1
MOST_NAME_BYTES = 200  # with its suffix it fits every file system
MOST_BYTES = 4096
ATTEMPTS = 16


class Pin(NamedTuple):
    """The next offset that a follower will read. epoch: of that offset in a copy, which has all before it on its disk;
    None for any other follower. name: of the copy, for people. updated: when it was set, in us.
    """

    offset: int
    epoch: int | None = None
    name: str = ""
    updated: int = 0


HOLDS_EVERYTHING = Pin(0)


def encode_pin(offset: int, updated: int, epoch: int | None = None, copy: str = "") -> bytes:
    """Return the bytes of a pin file. updated: us; copy: its name."""
    values: dict[str, object] = {"format": VERSION, "offset": offset, "updated": updated}
    if epoch is not None:
        values |= {"epoch": epoch, "name": copy}
    body = json.dumps(values).encode() + b"\n"
    return body + b'{"check":"%016x"}\n' % xxh64_intdigest(body)


def decode_pin(data: bytes) -> Pin | None:
    """Return a pin; None if it is damaged or of a newer format."""
    body, newline, check = data.removesuffix(b"\n").rpartition(b"\n")
    body += newline
    if not data.endswith(b"\n") or check != b'{"check":"%016x"}' % xxh64_intdigest(body):
        return None
    try:
        values = json.loads(body)
        offset = values["offset"] if values["format"] == VERSION else None
        epoch, name, updated = values.get("epoch"), values.get("name"), values.get("updated")
    except UNREADABLE:
        return None
    if type(offset) is not int or offset < 0:
        return None
    return Pin(
        offset,
        epoch if type(epoch) is int else None,
        name if isinstance(name, str) else "",
        updated if type(updated) is int else 0,
    )


def checked_pin(name: object) -> str:
    """Return the name of a pin, which names its file. Raises InvalidType or InvalidArgument."""
    name = checked_name(name, "pin")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(f"{name!r} cannot name a pin: it is not UTF-8 text") from None
    if size > MOST_NAME_BYTES:
        raise InvalidArgument(f"the name of a pin has {size} bytes; the maximum is {MOST_NAME_BYTES}")
    return name


def set_pin(
    storage: Storage,
    name: str,
    offset: int,
    *,
    epoch: int | None = None,
    copy: str = "",
    durable: bool = True,
    clock: Clock = system_clock,
) -> None:
    """Store the next offset that the follower `name` will read, atomically and durably.

    The offset may be lower than before. After a StorageError, or a crash, the pin is the old one or the new one.
    epoch, copy: epoch and name in `Pin`. durable: False omits the syncs; then a power loss may damage the pin, which
    holds everything.
    """
    path, data = filename.pin_file(checked_pin(name)), encode_pin(offset, clock(), epoch, copy)
    storage.make([filename.PINS, filename.TMP])
    for left in reversed(range(ATTEMPTS)):
        try:
            _replace(storage, path, data, durable=durable)
            break
        except StorageError as error:
            if error.errno != errno.ENOENT or left == 0:
                raise  # else a writer that was opening has cleared tmp/
    if durable:
        storage.sync_directory(filename.PINS)


def _replace(storage: Storage, path: str, data: bytes, *, durable: bool) -> None:
    temporary = f"{filename.TMP}/pin-{secrets.token_hex(8)}"
    file = storage.create(temporary)
    try:
        file.pwrite(data, 0)
        if durable:
            file.datasync()
        storage.rename(temporary, path)
    except StorageError:
        storage.unlink(temporary)
        raise


def drop_pin(storage: Storage, name: str) -> None:
    """Remove a follower's pin; a missing one is no error."""
    path = filename.pin_file(checked_pin(name))
    if storage.identity(path) is not None:
        storage.unlink(path)
        storage.sync_directory(filename.PINS)


def _is_name(name: str) -> bool:
    """Whether a pin can have this name; any other file there belongs to another program."""
    try:
        return checked_pin(name) == name
    except SeglogError:
        return False


def read_pins(storage: Storage, *, strict: bool = False) -> dict[str, int]:
    """Return for every follower, by name, the next offset that it will read: 0 if its pin cannot be read.

    strict: raise StorageError if the disk fails to read one, which may succeed later.
    """
    return {name: pin.offset for name, pin in _pins(storage, strict=strict)}


def read_copies(storage: Storage) -> dict[str, Pin]:
    """Return the pins of copies, by name: what each has on its disk."""
    return {name: pin for name, pin in _pins(storage, strict=False) if pin.epoch is not None}


def _pins(storage: Storage, *, strict: bool) -> Iterator[tuple[str, Pin]]:
    for file in storage.names(filename.PINS):
        name = file.removesuffix(filename.PIN)
        pin = _read(storage, f"{filename.PINS}/{file}", strict=strict) if file != name and _is_name(name) else None
        if pin is not None:
            yield name, pin


def _read(storage: Storage, path: str, *, strict: bool) -> Pin | None:
    """Return a pin; None if it was removed meanwhile."""
    try:
        pin = decode_pin(storage.open(path).pread(MOST_BYTES, 0))
    except StorageError as error:
        if strict and error.errno != errno.ENOENT:
            raise
        return None if error.errno == errno.ENOENT else HOLDS_EVERYTHING
    return HOLDS_EVERYTHING if pin is None else pin


def pull_back_pins(storage: Storage, offset: int, *, clock: Clock = system_clock) -> None:
    """Before a truncate at `offset`, move pins beyond it back: their followers have not read what will be there."""
    for name, pinned in read_pins(storage, strict=True).items():  # strict: a skipped pin would stay beyond the cut
        if pinned > offset:
            set_pin(storage, name, offset, clock=clock)
