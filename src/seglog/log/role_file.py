"""ROLE: a second place for the role of a log that is no plain leader, in case both manifests are lost.

Without it, a log rebuilt from its stores would be a leader: a copy would accept records, and so would a leader that was
fenced. The file is written before a manifest that takes appends away, and after one that gives them back, so that it
never gives more than the manifest does. It is read only when the manifest is rebuilt.

    {"format": 1, "term": 0, "copy": "0123456789abcdef", "fenced": 0}
    {"check":"<XXH64 of the line before>"}
"""

from __future__ import annotations

import dataclasses
import errno
import json
import secrets

from xxhash import xxh64_intdigest

from seglog.errors import StorageError
from seglog.format import filename
from seglog.format.foreign import UNREADABLE
from seglog.format.manifest import LEADER, Role
from seglog.storage import Storage, must_sync

VERSION = 1
MOST_BYTES = 4096


def encode_role(role: Role) -> bytes:
    """Return the bytes of the file."""
    body = json.dumps({"format": VERSION, **dataclasses.asdict(role)}).encode() + b"\n"
    return body + b'{"check":"%016x"}\n' % xxh64_intdigest(body)


def decode_role(data: bytes) -> Role | None:
    """Return the role; None if the file is damaged or of a newer format."""
    body, newline, check = data.removesuffix(b"\n").rpartition(b"\n")
    body += newline
    if not data.endswith(b"\n") or check != b'{"check":"%016x"}' % xxh64_intdigest(body):
        return None
    try:
        values = json.loads(body)
        return Role.from_json(values) if values["format"] == VERSION else None
    except UNREADABLE:
        return None


def read_role(storage: Storage) -> Role | None:
    """Return the role in the file; None if there is no file. A damaged one means a copy of an unknown id."""
    try:
        role = decode_role(storage.open(filename.ROLE).pread(MOST_BYTES, 0))
    except StorageError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return Role(copy=secrets.token_hex(8)) if role is None else role


def write_role(storage: Storage, role: Role) -> None:
    """Store a role durably; that of a plain leader removes the file."""
    if role == LEADER:
        storage.unlink(filename.ROLE)
    else:
        temporary = f"{filename.TMP}/{filename.ROLE}"
        file = storage.create(temporary, replace=True)
        file.pwrite(encode_role(role), 0)
        must_sync(file.datasync)
        storage.rename(temporary, filename.ROLE)
    must_sync(storage.sync_directory)


def settle_role(storage: Storage, role: Role, *, is_there: bool) -> None:
    """Make the file agree with the manifest, after a crash between both. is_there: whether there is a file."""
    if (is_there or role != LEADER) and read_role(storage) != (None if role == LEADER else role):
        write_role(storage, role)
