"""Every state in which a power cut may leave a disk, derived from the disk's journal.

At any moment each 512-byte block that was written since its file was synced holds its content from before or anything
written to it since; a block that is new in the file may also hold zeros, noise or a block of another file; a file has
any of its sizes since the sync; each change of a directory since its sync has happened or not. These are the `Unit`s of
a moment. All their combinations are legal: up to `EXHAUSTIVE` of them all are tried, otherwise a sample.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import prod

import xxhash

from seglog.testing.disk import ROOT, Disk, Entry, Image, Named, Node, Noted, Resized, Synced, Wrote, change_file

BLOCK_BYTES = 512
EXHAUSTIVE = 2**12
"""Number of combinations up to which all are tried: twelve units of two choices (acceptance/failures.md)."""

Change = tuple[Node, str, Node | None]
Choices = tuple[int, ...]


@dataclass(frozen=True)
class FileUnits:
    """The possible states of one unsynced file. sizes: the durable one first; blocks: number -> possible contents."""

    node: Node
    durable: bytes
    sizes: tuple[int, ...]
    blocks: dict[int, tuple[bytes, ...]]

    @property
    def counts(self) -> list[int]:
        """The number of choices of each unit: the size, then every block in order."""
        return [len(self.sizes), *(len(versions) for versions in self.blocks.values())]

    def build(self, choices: Choices) -> bytes:
        """Return the file's bytes."""
        size = self.sizes[choices[0]]
        data = bytearray(self.durable[:size].ljust(size, b"\0"))
        for choice, (number, versions) in zip(choices[1:], self.blocks.items(), strict=True):
            start = number * BLOCK_BYTES
            if start < size:
                data[start : start + BLOCK_BYTES] = versions[choice][: size - start]
        return bytes(data)


@dataclass
class Medium:
    """What is durable at a moment, and what is not yet."""

    files: dict[Node, bytes]
    directories: dict[Node, dict[str, Node]]
    writes: dict[Node, list[Wrote | Resized]] = field(default_factory=dict)
    names: list[list[Change]] = field(default_factory=list)

    @classmethod
    def of(cls, image: Image) -> Medium:
        """Return a disk that holds an image and nothing unsynced."""
        return cls(dict(image.files), {node: dict(names) for node, names in image.directories.items()})

    def take(self, entry: Wrote | Resized | Synced | Named) -> None:
        """Apply one entry of the journal."""
        if isinstance(entry, Named):
            self.names.append(list(entry.changes))
        elif not isinstance(entry, Synced):
            self.writes.setdefault(entry.node, []).append(entry)
        elif entry.node in self.writes:
            data = bytearray(self.files.get(entry.node, b""))
            for write in self.writes.pop(entry.node):
                change_file(data, write)
            self.files[entry.node] = bytes(data)
        else:
            self._sync_names(entry.node)

    def _sync_names(self, directory: Node) -> None:
        """Sync a directory. If a move leads to a directory that is not synced, both halves happen: no file loses its
        name.
        """
        for group in self.names:
            of_this = [change for change in group if change[0] == directory]
            happens = group if any(node is None for _, _, node in of_this) else of_this
            _name(self.directories, happens)
            group[:] = [change for change in group if change not in happens]
        self.names = [group for group in self.names if group]

    def file_units(self) -> list[FileUnits]:
        """Return the units of every file that is not synced."""
        return [self._units(node, writes) for node, writes in self.writes.items()]

    def _units(self, node: Node, writes: Sequence[Wrote | Resized]) -> FileUnits:
        durable = self.files.get(node, b"")
        data, sizes, blocks = bytearray(durable), [len(durable)], dict[int, list[bytes]]()
        for write in writes:
            touched, before = _touched(len(data), write), len(data)
            change_file(data, write)
            halfway = (before + len(data)) // 2 // BLOCK_BYTES * BLOCK_BYTES  # a large write is allocated in steps
            sizes += [size for size in (halfway, len(data)) if before < size and size not in sizes]
            if len(data) < before and len(data) not in sizes:
                sizes.append(len(data))
            for number in touched:
                versions = blocks.setdefault(number, self._versions_before(node, durable, number))
                block = _block(data, number)
                if block not in versions:
                    versions.append(block)
        return FileUnits(node, durable, tuple(sizes), {number: tuple(blocks[number]) for number in sorted(blocks)})

    def _versions_before(self, node: Node, durable: bytes, number: int) -> list[bytes]:
        """Return what a block may hold without any of the writes."""
        if number * BLOCK_BYTES < len(durable):
            return [_block(durable, number)]
        noise = random.Random(f"{node}/{number}").randbytes(BLOCK_BYTES)
        others = [data for other, data in self.files.items() if other != node and len(data) > number * BLOCK_BYTES]
        return [bytes(BLOCK_BYTES), noise, *(_block(data, number) for data in others[:1])]


def _block(data: bytes | bytearray, number: int) -> bytes:
    return bytes(data[number * BLOCK_BYTES : (number + 1) * BLOCK_BYTES]).ljust(BLOCK_BYTES, b"\0")


def _touched(length: int, write: Wrote | Resized) -> range:
    """Return the numbers of the blocks that a write to, or a resize of, a file of `length` bytes changes."""
    if isinstance(write, Wrote):
        first, end = min(write.position, length), write.position + len(write.data)
    else:
        first, end = min(write.size, length), max(write.size, length)
    return range(first // BLOCK_BYTES, -(-end // BLOCK_BYTES))


def _name(directories: dict[Node, dict[str, Node]], changes: Sequence[Change]) -> None:
    for directory, name, node in changes:
        names = directories.setdefault(directory, {})
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


@dataclass(frozen=True)
class Names:
    """All names of a disk. directories: by node; files: (path, node) in order of path; key: hash of the paths."""

    directories: dict[Node, dict[str, Node]]
    files: list[tuple[str, Node]]
    key: int

    @classmethod
    def of(cls, directories: dict[Node, dict[str, Node]], nodes: Collection[Node]) -> Names:
        """Return the names that can be reached from the root. nodes: those that are directories."""
        reached, files, waiting = dict[Node, dict[str, Node]](), [], [("", ROOT)]
        while waiting:
            path, directory = waiting.pop()
            names = reached[directory] = directories.get(directory, {})
            for name, node in names.items():
                if node in nodes:
                    waiting.append((f"{path}{name}/", node))
                    files.append((f"{path}{name}/", node))
                else:
                    files.append((path + name, node))
        files.sort()
        key = xxhash.xxh64_intdigest("\n".join([path for path, _ in files]).encode())
        return cls(reached, [(path, node) for path, node in files if node not in reached], key)

    def key_with(self, digests: Iterable[int]) -> int:
        """Return the key of these names with files that have these digests, in order."""
        return xxhash.xxh64_intdigest(array("Q", digests).tobytes(), self.key)


def key_of(image: Image) -> int:
    """Return a key of an image's names and bytes: equal for equal images."""
    names = Names.of(image.directories, image.directories)
    return names.key_with(xxhash.xxh64_intdigest(image.files[node]) for _, node in names.files)


class State:
    """One possible state of a disk. key: the `key_of` of its image, which is built on request."""

    def __init__(self, names: Names, files: dict[Node, bytes], key: int) -> None:
        self._names = names
        self._files = files
        self.key = key

    @property
    def image(self) -> Image:
        """The content of the disk."""
        return Image({node: self._files.get(node, b"") for _, node in self._names.files}, self._names.directories)


class Moment:
    """A moment at which the power may be cut. at: number of journal entries before; note: the last one noted."""

    def __init__(self, at: int, note: object, medium: Medium, nodes: frozenset[Node]) -> None:
        self.at = at
        self.note = note
        self._files = medium.file_units()
        self._changes = [tuple(group) for group in medium.names]
        self._durable = dict(medium.files)
        self._directories = {node: dict(names) for node, names in medium.directories.items()}
        self._nodes = nodes
        self._built: dict[tuple[Node, Choices], bytes] = {}
        self._named: dict[Choices, Names] = {}
        self._digests: dict[bytes, int] = {}
        self.counts = [count for units in self._files for count in units.counts] + [2] * len(self._changes)

    @property
    def combinations(self) -> int:
        """Number of combinations of choices; different ones may lead to the same state."""
        return prod(self.counts)

    def states(self, sample: int, seed: int = 0, *, exhaustive: int = EXHAUSTIVE) -> Iterator[State]:
        """Yield every state if there are up to `exhaustive` combinations, else about `sample` of them."""
        every = self.combinations <= exhaustive
        chosen = (
            product(*map(range, self.counts)) if every else self._sample(sample, random.Random(f"{seed}/{self.at}"))
        )
        for choices in chosen:
            yield self._state(choices)

    def _sample(self, sample: int, source: random.Random) -> Iterator[Choices]:
        """Yield nothing, all, each unit alone, all but each, and random combinations of different density."""
        none, last = [0] * len(self.counts), [count - 1 for count in self.counts]
        yield tuple(none)
        yield tuple(last)
        for number in range(len(self.counts)):
            yield (*none[:number], last[number], *none[number + 1 :])
            yield (*last[:number], none[number], *last[number + 1 :])
        for _ in range(sample):
            yield self._any(source)

    def _any(self, source: random.Random) -> Choices:
        density = source.random()
        return tuple(count - 1 if source.random() < density else source.randrange(count) for count in self.counts)

    def any_state(self, source: random.Random) -> State:
        """Return one of the states at random."""
        return self._state(self._any(source))

    def _state(self, choices: Choices) -> State:
        files, start = dict(self._durable), 0
        for units in self._files:
            end = start + len(units.blocks) + 1
            files[units.node] = self._file(units, choices[start:end])
            start = end
        names = self._names(choices[start:])
        return State(names, files, names.key_with([self._digest(files.get(node, b"")) for _, node in names.files]))

    def _names(self, choices: Choices) -> Names:
        known = self._named.get(choices)
        if known is None:
            directories = {node: dict(names) for node, names in self._directories.items()}
            for happens, changes in zip(choices, self._changes, strict=True):
                if happens:
                    _name(directories, changes)
            known = self._named[choices] = Names.of(directories, self._nodes)
        return known

    def _file(self, units: FileUnits, choices: Choices) -> bytes:
        known = self._built.get((units.node, choices))
        if known is None:
            known = self._built[units.node, choices] = units.build(choices)
        return known

    def _digest(self, data: bytes) -> int:
        known = self._digests.get(data)
        if known is None:
            known = self._digests[data] = xxhash.xxh64_intdigest(data)
        return known


def _recorded(disk: Disk) -> Sequence[Entry]:
    """Return the journal of a disk; without one, no check of its states would ever fail."""
    assert disk.journal is not None, "nothing was recorded: make the disk with recording=True"
    return disk.journal


def moments(disk: Disk) -> Iterator[Moment]:
    """Yield every moment of a recorded disk with states that were not possible before.

    These are before every sync and every note, and at the end. In between, unsynced changes only accumulate, and none
    of them has to happen; a sync only removes choices.
    """
    medium, note, journal = Medium.of(disk.begun), None, _recorded(disk)
    directories = frozenset(disk.directories)
    for at, (entry, following) in enumerate(pairwise([*journal, Noted(None)]), start=1):
        if isinstance(entry, Noted):
            note = entry.note
        else:
            medium.take(entry)
        if isinstance(following, (Synced, Noted)) and not isinstance(entry, Synced):
            yield Moment(at, note, medium, directories)


def present(disk: Disk) -> Moment:
    """Return the present moment of a recorded disk."""
    medium, note, journal = Medium.of(disk.begun), None, _recorded(disk)
    for entry in journal:
        if isinstance(entry, Noted):
            note = entry.note
        else:
            medium.take(entry)
    return Moment(len(journal), note, medium, frozenset(disk.directories))
