"""`topic.json`, which makes a directory of logs a topic. Written last when partitions are created: it is the commit.

    {"check": "<XXH64 of the others as one line of JSON>",
     "format_version": 1, "id": "<32 hex digits>", "name": "orders", "partitions": 4}

Older files have no check; if there is one it must match. While settings change in one partition after the other, the
file has them as "altering", and format version 2, so that no version opens the topic that would leave it half changed.
Policies of the topic that are not the defaults are "policies", with format version 3: no version opens the topic that
would not obey them. Without "policies", the manifests of the partitions may have them, from an earlier version.
This module reads and writes that one file; it never opens a partition.
"""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from xxhash import xxh64_hexdigest

from seglog.errors import CorruptLog, FormatVersionError, LogNotFound, NotALog, StorageError
from seglog.format.foreign import UNREADABLE
from seglog.log.opening import storage_at
from seglog.policies import Policies
from seglog.storage import Storage, is_directory

PLAIN_VERSION = 1
ALTERING_VERSION = 2
POLICIES_VERSION = NEWEST_VERSION = 3
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
        policies: Those of the topic; None: the defaults, or those that an earlier version stored with the partitions.
    """

    name: str
    partitions: int
    id: str
    altering: Mapping[str, Any] | None = field(default=None, hash=False)
    policies: Policies | None = None

    @classmethod
    def new(cls, name: str, partitions: int, policies: Policies | None = None) -> Description:
        """Return the description of a topic about to be created."""
        return cls(name=name, partitions=partitions, id=uuid.uuid4().hex).settled(policies)

    @property
    def format_version(self) -> int:
        """The lowest version that knows what the description has."""
        if self.policies is not None:
            return POLICIES_VERSION
        return PLAIN_VERSION if self.altering is None else ALTERING_VERSION

    def settled(self, policies: Policies | None) -> Description:
        """Return the description with these policies, once every partition has its settings and none has policies."""
        return replace(self, altering=None, policies=None if policies == Policies() else policies)


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
    if version == ALTERING_VERSION or (version == POLICIES_VERSION and "altering" in values):
        expected["altering"] = dict
    if version == POLICIES_VERSION:
        expected["policies"] = dict
    if {name: type(value) for name, value in values.items()} != expected or version < 1:
        raise CorruptLog(f"{path} is damaged: it should have exactly the fields {', '.join(expected)}")
    if not 1 <= values["partitions"] <= MAX_PARTITIONS:
        raise CorruptLog(f"{path} is damaged: {values['partitions']} partitions")
    del values["format_version"]
    return Description(**values | ({"policies": _policies(values["policies"], path)} if "policies" in values else {}))


def _policies(values: dict[str, Any], path: str) -> Policies:
    known, unknown = Policies.from_any_version(values)
    if unknown:
        raise FormatVersionError(f"{path} has {', '.join(unknown)}, which this seglog does not know; upgrade seglog")
    return known


def _check(values: dict[str, Any]) -> str:
    return xxh64_hexdigest(json.dumps(values, sort_keys=True).encode())


def check_of(description: Description) -> str:
    """Return the check that the file of a description contains."""
    return _check(_values(description))


def _values(description: Description) -> dict[str, Any]:
    found: dict[str, Any] = {
        "format_version": description.format_version,
        "id": description.id,
        "name": description.name,
        "partitions": description.partitions,
    }
    if description.altering is not None:
        found["altering"] = description.altering
    if description.policies is not None:
        found["policies"] = description.policies.to_json()
    return found


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
