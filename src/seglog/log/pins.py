"""Pins: how followers see to it that a compaction leaves them the tombstones they have not read yet.

A pin is a small file `pins/<name>.pin` of the log: the next offset that a follower will read. Unlike a lease it
outlives its process, and it keeps records, not files. Any process that sees the directory sets its own, without the
writer's lock: a pin belongs to whoever knows its name.

    {"format": 1, "offset": 42, "updated": <us>}
    {"check":"<XXH64 of the line before>"}

A pin that cannot be read holds everything, as if its follower stood at offset 0. It counts for each compaction that is
planned after it was set. Knows nothing of what is compacted.
"""

from __future__ import annotations

import errno
import json
import secrets

from xxhash import xxh64_intdigest

from seglog.clock import Clock, system_clock
from seglog.errors import InvalidArgument, SeglogError, StorageError
from seglog.format import filename
from seglog.format.foreign import UNREADABLE
from seglog.log.staging import checked_name
from seglog.storage import Storage

VERSION = 1
HOLDS_EVERYTHING = 0
MOST_NAME_BYTES = 200  # with its ending it fits every file system
MOST_BYTES = 4096
ATTEMPTS = 16


def encode_pin(offset: int, updated: int) -> bytes:
    """Return a pin's bytes; updated: us."""
    body = json.dumps({"format": VERSION, "offset": offset, "updated": updated}).encode() + b"\n"
    return body + b'{"check":"%016x"}\n' % xxh64_intdigest(body)


def decode_pin(data: bytes) -> int | None:
    """Return a pin's offset, None where it is damaged or of a newer format."""
    body, newline, check = data.removesuffix(b"\n").rpartition(b"\n")
    body += newline
    if not data.endswith(b"\n") or check != b'{"check":"%016x"}' % xxh64_intdigest(body):
        return None
    try:
        values = json.loads(body)
        offset = values["offset"] if values["format"] == VERSION else None
    except UNREADABLE:
        return None
    return offset if type(offset) is int and offset >= 0 else None


def checked_pin(name: object) -> str:
    """Return the name of a pin, after which its file is named; InvalidType, InvalidArgument."""
    name = checked_name(name, "pin")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(f"{name!r} cannot name a pin: it is not UTF-8 text") from None
    if size > MOST_NAME_BYTES:
        raise InvalidArgument(f"a pin's name of {size} bytes: names end at {MOST_NAME_BYTES}")
    return name


def set_pin(storage: Storage, name: str, offset: int, *, clock: Clock = system_clock) -> None:
    """Note the next offset that the follower `name` will read, in one step that survives power loss.

    It may move either way. After a StorageError, or a crash, the pin is the old one or the new one.
    """
    path, data = filename.pin_file(checked_pin(name)), encode_pin(offset, clock())
    storage.make([filename.PINS, filename.TMP])
    for left in reversed(range(ATTEMPTS)):
        try:
            _replace(storage, path, data)
            break
        except StorageError as error:
            if error.errno != errno.ENOENT or left == 0:
                raise  # else a writer that was opening wiped tmp/
    storage.sync_directory(filename.PINS)


def _replace(storage: Storage, path: str, data: bytes) -> None:
    temporary = f"{filename.TMP}/pin-{secrets.token_hex(8)}"
    file = storage.create(temporary)
    try:
        file.pwrite(data, 0)
        file.datasync()
        storage.rename(temporary, path)
    except StorageError:
        storage.unlink(temporary)
        raise


def drop_pin(storage: Storage, name: str) -> None:
    """Forget a follower; one that is not there is no error."""
    path = filename.pin_file(checked_pin(name))
    if storage.identity(path) is not None:
        storage.unlink(path)
        storage.sync_directory(filename.PINS)


def _is_name(name: str) -> bool:
    """Whether a pin can have this name; any other file there is a stranger's."""
    try:
        return checked_pin(name) == name
    except SeglogError:
        return False


def read_pins(storage: Storage, *, strict: bool = False) -> dict[str, int]:
    """Return for every follower, by name, the next offset it will read: 0 where its pin cannot be read.

    strict: StorageError where the medium refuses to give one, which may be readable again later.
    """
    pins: dict[str, int] = {}
    for file in storage.names(filename.PINS):
        name = file.removesuffix(filename.PIN)
        offset = _read(storage, f"{filename.PINS}/{file}", strict=strict) if file != name and _is_name(name) else None
        if offset is not None:
            pins[name] = offset
    return pins


def _read(storage: Storage, path: str, *, strict: bool) -> int | None:
    """Return a pin's offset, None where it has been dropped meanwhile."""
    try:
        offset = decode_pin(storage.open(path).pread(MOST_BYTES, 0))
    except StorageError as error:
        if strict and error.errno != errno.ENOENT:
            raise
        return None if error.errno == errno.ENOENT else HOLDS_EVERYTHING
    return HOLDS_EVERYTHING if offset is None else offset


def pull_back_pins(storage: Storage, offset: int, *, clock: Clock = system_clock) -> None:
    """Before a truncate at `offset`: whoever stood behind it has read nothing of what will stand there."""
    for name, pinned in read_pins(storage, strict=True).items():  # one that was passed over would stay behind the cut
        if pinned > offset:
            set_pin(storage, name, offset, clock=clock)
