"""The list of a log's segments in an archive: the log's manifest, and which objects hold each segment. Pure.

{"log": "...", "placed": {"<name of the store>": [<term>, ["index", 4112], ["times", 88]]}}
<the bytes of a MANIFEST>
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from xxhash import xxh64_hexdigest

from seglog.archive.layout import segment_key
from seglog.errors import CorruptLog
from seglog.format import filename, manifest
from seglog.format.foreign import UNREADABLE
from seglog.format.manifest import Manifest, SegmentEntry


class Placed(NamedTuple):
    """The objects of a sealed segment. term: of their writer; lookups: (kind, bytes) of those there."""

    term: int
    lookups: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class ArchivedSegments:
    """A log's structure in an archive. manifest: without retired files; placed: by name of the store, sealed ones only.

    File numbers are unique in a log, but not here: a copy that was promoted continues with its own.
    """

    manifest: Manifest
    placed: dict[str, Placed]

    def keys_of(self, entry: SegmentEntry) -> dict[str, str]:
        """Return kind -> key of a sealed segment's objects."""
        term, lookups = self.placed[entry.name()]
        kinds = (filename.STORE, *[kind for kind, _ in lookups])
        return {kind: segment_key(self.manifest.log_id, entry, term, kind) for kind in kinds}

    def sizes_of(self, entry: SegmentEntry) -> dict[str, int]:
        """Return kind -> bytes of a sealed segment's objects."""
        return {filename.STORE: entry.disk_bytes, **dict(self.placed[entry.name()].lookups)}

    def keys(self) -> Iterator[str]:
        """Yield the keys of all sealed segments' objects."""
        for entry in self.manifest.segments[:-1]:
            yield from self.keys_of(entry).values()

    def encode(self) -> bytes:
        """Return the object's bytes."""
        placed = {name: [one.term, *one.lookups] for name, one in self.placed.items()}
        head = {"log": f"{self.manifest.log_id:016x}", "placed": placed}
        return json.dumps(head, separators=(",", ":")).encode() + b"\n" + self.manifest.encode()


def check_of(data: bytes) -> str:
    """Return the check of an object, which the commit holds."""
    return xxh64_hexdigest(data)


def decode(data: bytes, check: str, path: str, like: Manifest | None = None) -> ArchivedSegments:
    """Decode the object. Raises CorruptLog if it is not what the commit names. like: see `manifest.decode`."""
    if check_of(data) != check:
        raise CorruptLog(f"{path}: the list of segments is damaged: its check does not hold")
    head, _, rest = data.partition(b"\n")
    known = manifest.decode(rest, path, like)
    try:
        placed = {
            name: Placed(term, tuple((kind, size) for kind, size in lookups))
            for name, (term, *lookups) in json.loads(head)["placed"].items()
        }
        missing = [entry.name() for entry in known.segments[:-1] if entry.name() not in placed]
    except UNREADABLE as error:
        raise CorruptLog(f"{path}: the list of segments cannot be read ({error})") from error
    if missing:
        raise CorruptLog(f"{path}: the list of segments names no object for {missing[0]}")
    return ArchivedSegments(known, placed)
