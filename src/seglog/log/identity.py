"""Whose bytes a file holds: which log a store is of, and whether it stands under its own name.

A store's header says its log and its salt, not where it begins: that stands in its name. What was known of it
(MANIFEST.prev), and the lookups beside it, which bind its salt, tell where a file was put in another one's place.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from seglog.errors import CorruptLog, StorageError
from seglog.format import filename
from seglog.format.filename import SegmentFile
from seglog.format.index import DENSE_HEADER_BYTES, decode_durable_records, is_bound
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.format.store import HEADER_BYTES, StoreHeader, decode_header
from seglog.log.catalog import read_manifest
from seglog.segment.sealed import read_whole
from seglog.storage import Storage


class _Place(NamedTuple):
    """What the name of a segment's files says."""

    base_offset: int
    number: int

    def file(self, kind: str = filename.STORE) -> str:
        return filename.segment_file(self.base_offset, self.number, kind)


def stores_of(names: Iterable[str]) -> Iterator[tuple[str, SegmentFile]]:
    """Yield the stores among some names, and what their names say."""
    for name in names:
        parsed = filename.parse_segment_file(name) if name.endswith(filename.STORE) else None
        if parsed is not None and parsed.kind == filename.STORE:
            yield name, parsed


def previous_manifest(storage: Storage) -> Manifest | None:
    """Return MANIFEST.prev, None where it is gone or damaged."""
    with suppress(CorruptLog):
        return read_manifest(storage, filename.MANIFEST_PREVIOUS)
    return None


def is_foreign(storage: Storage, manifest: Manifest) -> bool:
    """Whether a manifest was put in another one's place: no store is of its log, and they are proven to be of theirs.

    The proof is MANIFEST.prev, or a lookup that fits its store. Without one, the stores may be what is out of place.
    """
    if _log_id(storage, manifest.active.name()) == manifest.log_id:
        return False  # what nearly every opening finds: one head was read
    whose = {name: _log_id(storage, name) for name, _ in stores_of(storage.names())}
    if manifest.log_id in whose.values():
        return False
    previous = previous_manifest(storage)
    if previous is not None:
        return previous.log_id in whose.values()
    return any(log_id is not None and _has_own_lookups(storage, name) for name, log_id in whose.items())


def check_places(storage: Storage, known: Mapping[int, SegmentEntry]) -> None:
    """Raise CorruptLog for a store under another one's name: its records would come at other offsets.

    known: entries of MANIFEST.prev by file number, the only manifest that is left. Where one is sealed it stands, and
    whoever opens that store compares the salt.
    """
    salts = {
        _Place(parsed.base_offset, parsed.number): head.salt
        for name, parsed in stores_of(storage.names())
        if (parsed.number not in known or not known[parsed.number].sealed) and (head := _head(storage, name))
    }
    _check_known(storage, salts, known)
    _check_copies(storage, salts)
    _check_lookups(storage, salts)


def _check_known(storage: Storage, salts: Mapping[_Place, int], known: Mapping[int, SegmentEntry]) -> None:
    numbers = {entry.salt: number for number, entry in known.items()}
    for place, salt in salts.items():
        entry = known.get(place.number)
        if numbers.get(salt, place.number) != place.number or (entry is not None and entry.salt != salt):
            raise _out_of_place(storage, place, "by MANIFEST.prev this is another file than its name says")


def _check_copies(storage: Storage, salts: Mapping[_Place, int]) -> None:
    """No two stores have one salt."""
    first: dict[int, _Place] = {}
    for place, salt in salts.items():
        other = first.setdefault(salt, place)
        if other != place:
            wrong, right = (place, other) if _fits(storage, other, salt) else (other, place)
            raise _out_of_place(storage, wrong, f"this and {right.file()} are one store under two names")


def _check_lookups(storage: Storage, salts: Mapping[_Place, int]) -> None:
    """No lookup fits a store under another name where those of its own name do not fit it."""
    strangers = {place: salt for place, salt in salts.items() if not _fits(storage, place, salt)}
    lookups = {_Place(parsed.base_offset, parsed.number) for parsed in _lookups(storage.names())}
    orphans = [place for place in sorted(lookups) if place not in salts or place in strangers]
    for place, salt in strangers.items():
        for orphan in orphans:
            if _fits(storage, orphan, salt):
                raise _out_of_place(storage, place, f"by the lookups beside its place this is {orphan.file()}")


def _lookups(names: Iterable[str]) -> Iterator[SegmentFile]:
    for name in names:
        parsed = filename.parse_segment_file(name)
        if parsed is not None and parsed.kind != filename.STORE:
            yield parsed


def _out_of_place(storage: Storage, place: _Place, why: str) -> CorruptLog:
    return CorruptLog(
        f"{storage.path}/{place.file()}: MANIFEST is lost, and {why}; nothing was changed: restore it, or move it away "
        "to go on without it"
    )


def _head(storage: Storage, name: str) -> StoreHeader | None:
    """Return a store's header, None where it is damaged or the store is missing."""
    try:
        store = storage.open(name)
    except StorageError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return decode_header(store.pread(HEADER_BYTES, 0), store.path)


def _log_id(storage: Storage, name: str) -> int | None:
    """Return which log a store says it is of, None where it is missing or does not say."""
    head = _head(storage, name)
    return None if head is None else head.log_id


def _has_own_lookups(storage: Storage, name: str) -> bool:
    """Whether a lookup beside a store was made for it."""
    parsed, head = filename.parse_segment_file(name), _head(storage, name)
    return parsed is not None and head is not None and _fits(storage, _Place(*parsed[:2]), head.salt)


def _fits(storage: Storage, place: _Place, salt: int) -> bool:
    """Whether a lookup at a place is that of the store with this salt, which its check binds."""
    index = read_whole(storage, place.file(filename.INDEX), DENSE_HEADER_BYTES)
    return decode_durable_records(index, place.base_offset, salt) is not None or any(
        is_bound(read_whole(storage, place.file(kind)), salt) for kind in (filename.OFFSETS, filename.TIMES)
    )
