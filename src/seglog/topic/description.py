"""`topic.json`: what makes a directory of logs a topic. Written last when a topic is created, so it is the
commit.

    {"format_version": 1, "id": "<32 hex digits>", "name": "orders", "partitions": 4}

This module reads and writes that one file; it never opens a partition.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from seglog.errors import CorruptLog, FormatVersionError, LogNotFound, NotALog

if TYPE_CHECKING:
    from pathlib import Path

FORMAT_VERSION = 1
FILE_NAME = "topic.json"
TEMPORARY_NAME = FILE_NAME + ".tmp"
MAX_PARTITIONS = 10_000


@dataclass(frozen=True, slots=True)
class Description:
    """What `topic.json` says. id: 32 hex digits, random, the topic's identity for good; name: as readers see
    it.
    """

    name: str
    partitions: int
    id: str
    format_version: int = FORMAT_VERSION

    @classmethod
    def new(cls, name: str, partitions: int) -> Description:
        """Return the description of a topic that is about to be created."""
        return cls(name=name, partitions=partitions, id=uuid.uuid4().hex)


def is_topic(root: Path) -> bool:
    """Tell whether `root` is a topic: only its `topic.json` decides."""
    return (root / FILE_NAME).is_file()


def below(root: Path) -> list[Path]:
    """Return the topics right in a directory, in order of their names; none where there is no directory."""
    if not root.is_dir():
        return []
    return [entry for entry in sorted(root.iterdir()) if entry.is_dir() and is_topic(entry)]


def read(root: Path) -> Description:
    """Return the description of the topic at `root`.

    Raises LogNotFound, NotALog (no `topic.json`), FormatVersionError (a newer one) or CorruptLog (damaged).
    """
    path = root / FILE_NAME
    try:
        text = path.read_bytes()
    except FileNotFoundError as error:
        if not root.exists():
            raise LogNotFound(f"{root}: there is no topic here") from error
        raise NotALog(f"{root} holds no {FILE_NAME}, so it is no topic; Topic.create makes one") from error
    except NotADirectoryError as error:
        raise NotALog(f"{root} is a file, not a topic") from error
    return _parse(text, path)


def _parse(text: bytes, path: Path) -> Description:
    try:
        values = json.loads(text)
        version = values["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLog(f"{path} is damaged: {error}; restore it from a backup, it is written once") from error
    if type(version) is int and version > FORMAT_VERSION:
        raise FormatVersionError(
            f"{path} has format version {version}, this seglog reads up to {FORMAT_VERSION}; upgrade seglog"
        )
    expected = {"format_version": int, "id": str, "name": str, "partitions": int}
    if {name: type(value) for name, value in values.items()} != expected or version < 1:
        raise CorruptLog(f"{path} is damaged: it should hold exactly {', '.join(expected)}")
    if not 1 <= values["partitions"] <= MAX_PARTITIONS:
        raise CorruptLog(f"{path} is damaged: {values['partitions']} partitions")
    return Description(**values)


def write(root: Path, description: Description) -> None:
    """Make `root` a topic, durably: a temporary file, fsync, rename, fsync of the directory."""
    temporary = root / TEMPORARY_NAME
    text = json.dumps(asdict(description), indent=2, sort_keys=True) + "\n"
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(root / FILE_NAME)
    sync_directory(root)


def sync_directory(directory: Path) -> None:
    """Make the names in `directory` durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
