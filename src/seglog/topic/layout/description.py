"""`topic.json`, which makes a directory of logs a topic. Written last when partitions are created: it is the commit.

    {"check": "<XXH64 of the others as one line of JSON>",
     "format_version": 1, "id": "<32 hex digits>", "name": "orders", "partitions": 4}

Older files have no check; if there is one it must match. While settings change in one partition after the other, the
file has them as "altering", and format version 2, so that no version opens the topic that would leave it half changed.
This module reads and writes that one file; it never opens a partition.
"""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from xxhash import xxh64_hexdigest

from seglog.errors import CorruptLog, FormatVersionError, LogNotFound, NotALog, StorageError
from seglog.format.foreign import UNREADABLE
from seglog.log.opening import storage_at
from seglog.storage import Storage, is_directory

FORMAT_VERSION = 1
ALTERING_VERSION = NEWEST_VERSION = 2
FILE_NAME = "topic.json"
TEMPORARY_NAME = FILE_NAME + ".tmp"
MAX_PARTITIONS = 10_000


@dataclass(frozen=True, slots=True)
class Description:
    """The content of `topic.json`.

    Args:
        name: As readers see it.
        partitions: How many there are.
        id: 32 random hex digits, the topic's identity.
        altering: The settings, as JSON values, that not all partitions may have yet.
    """

    name: str
    partitions: int
    id: str
    format_version: int = FORMAT_VERSION
    altering: Mapping[str, Any] | None = field(default=None, hash=False)

    @classmethod
    def new(cls, name: str, partitions: int) -> Description:
        """Return the description of a topic about to be created."""
        return cls(name=name, partitions=partitions, id=uuid.uuid4().hex)

    def while_altering(self, changes: Mapping[str, Any] | None) -> Description:
        """Return the description while all partitions get these settings; None: once they have them."""
        version = FORMAT_VERSION if changes is None else ALTERING_VERSION
        return replace(self, altering=changes, format_version=version)


def is_topic(place: str | os.PathLike[str] | Storage) -> bool:
    """Return whether a path or Storage is a topic: only `topic.json` decides."""
    return storage_at(place).identity(FILE_NAME) is not None


def below(place: str | os.PathLike[str] | Storage) -> list[str]:
    """Return the names of the topic directories in a directory, sorted; none if there is no directory.

    Names that start with "." are excluded: they are a broker's own, or topics being deleted.
    """
    root = storage_at(place)
    names = root.names() if is_directory(root) else []
    return [name for name in names if not name.startswith(".") and root.identity(f"{name}/{FILE_NAME}") is not None]


def read(place: str | os.PathLike[str] | Storage) -> Description:
    """Return the description of the topic at a path or in a Storage.

    Raises LogNotFound, NotALog (no `topic.json`), FormatVersionError (a newer one) or CorruptLog (damaged).
    """
    root = storage_at(place)
    try:
        file = root.open(FILE_NAME)
        text = file.pread(file.size(), 0)
    except StorageError as error:
        if error.errno == errno.ENOTDIR:
            raise NotALog(f"{root.path} is a file, not a topic") from error
        if error.errno != errno.ENOENT:
            raise
        if not root.exists():
            raise LogNotFound(f"{root.path}: there is no topic here") from error
        raise NotALog(f"{root.path} has no {FILE_NAME}, so it is not a topic; Topic.create creates one") from error
    return parse(text, file.path)


def parse(text: bytes, path: str) -> Description:
    """Parse the file's bytes. Raises FormatVersionError or CorruptLog, with `path`."""
    try:
        values = json.loads(text)
        version = values["format_version"]
    except UNREADABLE as error:
        raise CorruptLog(f"{path} is damaged: {error}; restore it from a backup") from error
    if type(version) is int and version > NEWEST_VERSION:
        raise FormatVersionError(
            f"{path} has format version {version}, this seglog reads up to {NEWEST_VERSION}; upgrade seglog"
        )
    if type(values) is dict and "check" in values and values.pop("check") != _check(values):
        raise CorruptLog(f"{path} is damaged: its check does not hold; restore it from a backup")
    expected: dict[str, type] = {"format_version": int, "id": str, "name": str, "partitions": int}
    if version == ALTERING_VERSION:
        expected["altering"] = dict
    if {name: type(value) for name, value in values.items()} != expected or version < 1:
        raise CorruptLog(f"{path} is damaged: it should have exactly the fields {', '.join(expected)}")
    if not 1 <= values["partitions"] <= MAX_PARTITIONS:
        raise CorruptLog(f"{path} is damaged: {values['partitions']} partitions")
    return Description(**values)


def _check(values: dict[str, Any]) -> str:
    return xxh64_hexdigest(json.dumps(values, sort_keys=True).encode())


def check_of(description: Description) -> str:
    """Return the check that the file of a description contains."""
    return _check(_values(description))


def _values(description: Description) -> dict[str, Any]:
    return {name: value for name, value in asdict(description).items() if value is not None}


def write(place: str | os.PathLike[str] | Storage, description: Description) -> None:
    """Write the file durably: a temporary file, synced, then renamed, synced.

    Raises StorageError if the last sync fails: the topic may or may not exist.
    """
    root = storage_at(place)
    file = root.create(TEMPORARY_NAME, replace=True)
    values = _values(description)
    text = json.dumps({**values, "check": _check(values)}, indent=2, sort_keys=True) + "\n"
    file.pwrite(text.encode(), 0)
    file.datasync()
    root.rename(TEMPORARY_NAME, FILE_NAME)
    root.sync_directory()
