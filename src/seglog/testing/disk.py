"""A disk in memory that keeps a journal: every write, cut, sync and change of a directory, in order.

`crash_states` derives from the journal what a power cut may leave at any moment. Stricter than any real file system: a
name is on the disk only once its directory is synced, whatever else is. Knows nothing of logs.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from weakref import WeakSet

ROOT = 0
Node = int
"""The number of a file or directory; not reused on the same disk."""


class Holder(Protocol):
    """A lock that is held on a file."""

    shared: bool


class Wrote(NamedTuple):
    """Bytes written at a position."""

    node: Node
    position: int
    data: bytes


class Resized(NamedTuple):
    """A file cut or extended."""

    node: Node
    size: int


class Synced(NamedTuple):
    """A file's data and size, or a directory's names, are on the disk."""

    node: Node


class Named(NamedTuple):
    """Names set, or removed (node None), atomically: (directory, name, node)."""

    changes: tuple[tuple[Node, str, Node | None], ...]


class Noted(NamedTuple):
    """A note that the user of the disk added to the journal."""

    note: object


Entry = Wrote | Resized | Synced | Named | Noted


@dataclass(frozen=True)
class Image:
    """The content of a disk: files' bytes and directories' names by node. Not modified."""

    files: dict[Node, bytes] = field(default_factory=dict)
    directories: dict[Node, dict[str, Node]] = field(default_factory=lambda: {ROOT: {}})


class Disk:
    """The nodes of a disk, starting from an image. journal: None if nothing is recorded."""

    def __init__(self, image: Image | None = None, *, recording: bool = False) -> None:
        image = image or Image()
        self.begun = image
        self.made = len(image.directories) > 1 or bool(image.directories[ROOT])
        self.files: dict[Node, bytearray] = {node: bytearray(data) for node, data in image.files.items()}
        self.directories = {node: dict(names) for node, names in image.directories.items()}
        self.journal: list[Entry] | None = [] if recording else None
        self.holders: dict[Node, WeakSet[Holder]] = {}
        self._changes = itertools.count(1)
        self.changed: dict[Node, int] = {}
        self._next = max(itertools.chain(self.files, self.directories)) + 1

    def image(self) -> Image:
        """Return the present content, as if all of it were synced."""
        files = {node: bytes(data) for node, data in self.files.items()}
        return Image(files, {node: dict(names) for node, names in self.directories.items()})

    def note(self, note: object) -> None:
        """Add a note to the journal."""
        if self.journal is not None:
            self.journal.append(Noted(note))

    def new_file(self) -> Node:
        """Create an empty file without a name."""
        node, self._next = self._next, self._next + 1
        self.files[node] = bytearray()
        return node

    def new_directory(self) -> Node:
        """Create an empty directory without a name."""
        node, self._next = self._next, self._next + 1
        self.directories[node] = {}
        return node

    def apply(self, entry: Wrote | Resized | Named | Synced) -> None:
        """Apply an entry and record it."""
        if isinstance(entry, Named):
            for directory, name, node in entry.changes:
                if node is None:
                    self.directories[directory].pop(name, None)
                else:
                    self.directories[directory][name] = node
        elif isinstance(entry, (Wrote, Resized)):
            change_file(self.files[entry.node], entry)
            self.changed[entry.node] = next(self._changes)
        if self.journal is not None:
            self.journal.append(entry)


def change_file(data: bytearray, entry: Wrote | Resized) -> None:
    """Write or resize; an extension reads as zeros."""
    if isinstance(entry, Resized):
        del data[entry.size :]
        data.extend(bytes(entry.size - len(data)))
        return
    if entry.position > len(data):
        data.extend(bytes(entry.position - len(data)))
    data[entry.position : entry.position + len(entry.data)] = entry.data
