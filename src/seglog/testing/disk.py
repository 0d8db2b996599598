"""A disk in memory that keeps a journal: every write, cut, sync and change of a directory, in order.

From the journal `crash_states` tells what a power cut may leave at any moment. Stricter than any file system in use:
a name is on the medium only once its directory is synced, whatever else is. Knows nothing of logs.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakSet

if TYPE_CHECKING:
    from seglog.testing.disk_storage import DiskLock

ROOT = 0
Node = int
"""The number of a file or directory, never used again on the same disk."""


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
    """A file's data and size, or a directory's names, are on the medium."""

    node: Node


class Named(NamedTuple):
    """Names set, or removed where the node is None: (directory, name, node), all in one step."""

    changes: tuple[tuple[Node, str, Node | None], ...]


class Noted(NamedTuple):
    """What the journal's owner wanted to know by now."""

    note: object


Entry = Wrote | Resized | Synced | Named | Noted


@dataclass(frozen=True)
class Image:
    """What is on a medium: files' bytes and directories' names by node. Nothing in it is changed."""

    files: dict[Node, bytes] = field(default_factory=dict)
    directories: dict[Node, dict[str, Node]] = field(default_factory=lambda: {ROOT: {}})


class Disk:
    """The nodes of a disk, begun from an image. journal: None where nothing is to be kept."""

    def __init__(self, image: Image | None = None, *, recording: bool = False) -> None:
        image = image or Image()
        self.begun = image
        self.made = len(image.directories) > 1 or bool(image.directories[ROOT])
        self.files: dict[Node, bytearray] = {node: bytearray(data) for node, data in image.files.items()}
        self.directories = {node: dict(names) for node, names in image.directories.items()}
        self.journal: list[Entry] | None = [] if recording else None
        self.holders: dict[Node, WeakSet[DiskLock]] = {}
        self._changes = itertools.count(1)
        self.changed: dict[Node, int] = {}
        self._next = max(itertools.chain(self.files, self.directories)) + 1

    def image(self) -> Image:
        """Return what is on it now, if all of it were on the medium."""
        files = {node: bytes(data) for node, data in self.files.items()}
        return Image(files, {node: dict(names) for node, names in self.directories.items()})

    def note(self, note: object) -> None:
        """Keep something between the entries of the journal."""
        if self.journal is not None:
            self.journal.append(Noted(note))

    def new_file(self) -> Node:
        """Return a new empty file without a name."""
        node, self._next = self._next, self._next + 1
        self.files[node] = bytearray()
        return node

    def new_directory(self) -> Node:
        """Return a new empty directory without a name."""
        node, self._next = self._next, self._next + 1
        self.directories[node] = {}
        return node

    def apply(self, entry: Wrote | Resized | Named | Synced) -> None:
        """Do what an entry says, and keep it."""
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
    """Write or resize; what a file is extended by reads as zeros."""
    if isinstance(entry, Resized):
        del data[entry.size :]
        data.extend(bytes(entry.size - len(data)))
        return
    if entry.position > len(data):
        data.extend(bytes(entry.position - len(data)))
    data[entry.position : entry.position + len(entry.data)] = entry.data
