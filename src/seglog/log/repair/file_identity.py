"""Determine which log a store belongs to, and whether it has its own name.

A store's header has the ids of log and file (salt), but not the base offset, which is only in the file name. A file
that was put in place of another is recognized by MANIFEST.prev and by the lookups beside it: a dense index is bound to
salt and base offset, other lookups to the salt alone.
"""

from __future__ import annotations

import errno
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from seglog.errors import CorruptLog, FormatVersionError, StorageError
from seglog.format import filename
from seglog.format.filename import SegmentFile
from seglog.format.foreign import UNREADABLE
from seglog.format.index import DENSE_HEADER_BYTES, decode_durable_records, is_bound
from seglog.format.manifest import Manifest, SegmentEntry, Segments
from seglog.format.manifest_changes import ManifestFile, latest_state
from seglog.format.store import HEADER_BYTES, StoreHeader, decode_header
from seglog.log.catalog import read_manifest
from seglog.log.journal import read_file
from seglog.segment.sealed import read_whole
from seglog.storage import Storage

MOST_PAIRS = 4096  # pairs of a store and lookups elsewhere, each read once; beyond that all count as damaged


class _Place(NamedTuple):
    """Base offset and file number, as in the names of a segment's files."""

    base_offset: int
    number: int

    def file(self, kind: str = filename.STORE) -> str:
        return filename.segment_file(self.base_offset, self.number, kind)


def stores_of(names: Iterable[str]) -> Iterator[tuple[str, SegmentFile]]:
    """Yield the stores among some names, with their parsed names."""
    for name in names:
        parsed = filename.parse_segment_file(name) if name.endswith(filename.STORE) else None
        if parsed is not None and parsed.kind == filename.STORE:
            yield name, parsed


def previous_manifest(storage: Storage) -> Manifest | None:
    """Return MANIFEST.prev; None if it is missing or damaged."""
    return last_known(storage, filename.MANIFEST_PREVIOUS)


def previous_file(storage: Storage) -> ManifestFile | None:
    """Return what MANIFEST.prev holds; None if it is missing or damaged."""
    with suppress(CorruptLog):
        return read_file(storage, filename.MANIFEST_PREVIOUS)
    return None


def last_known(storage: Storage, name: str = filename.MANIFEST) -> Manifest | None:
    """Return what is left of a manifest file; without segments if only its changes are readable. None: nothing."""
    with suppress(CorruptLog):
        return read_manifest(storage, name)
    with suppress(FormatVersionError, *UNREADABLE):  # of another version: nothing that can be used
        state = latest_state(read_whole(storage, name))
        return None if state is None else Manifest.from_header(state, Segments())
    return None


def is_foreign(storage: Storage, manifest: Manifest) -> bool:
    """Whether MANIFEST belongs to another log: no store is of its log, and it is proven that they are of their own.

    The proof is MANIFEST.prev, or a lookup that matches its store. Without a proof the stores may be the foreign files.
    """
    if _log_id(storage, manifest.active.name()) == manifest.log_id:
        return False  # the common case costs one read of a header
    whose = {name: _log_id(storage, name) for name, _ in stores_of(storage.names())}
    if manifest.log_id in whose.values():
        return False
    previous = previous_manifest(storage)
    if previous is not None:
        return previous.log_id in whose.values()
    return any(log_id is not None and _has_own_lookups(storage, name) for name, log_id in whose.items())


def check_places(storage: Storage, known: Mapping[int, SegmentEntry]) -> None:
    """Raise CorruptLog for a store that has the name of another one: its records would get other offsets.

    known: entries of MANIFEST.prev by file number, the only manifest left. A store that is sealed there is not checked
    here, because opening it compares the salt. A compacted segment moved together with its lookups is not recognized.
    """
    heads = {
        _Place(parsed.base_offset, parsed.number): head
        for name, parsed in stores_of(storage.names())
        if (parsed.number not in known or not known[parsed.number].sealed) and (head := head_of(storage, name))
    }
    twice = _linked_twice(storage, heads)
    indexes = {place: _index_head(storage, place) for place in {*heads, *_lookups(storage.names())}}
    doubtful: dict[_Place, int] = {}
    for place, head in heads.items():
        base = _bound_base(indexes[place], head.salt)
        if base is None:
            doubtful[place] = head.salt
        elif base != place.base_offset and place not in twice:
            raise _out_of_place(storage, place, f"its index belongs to a store that begins at offset {base}")
    _check_known(storage, _without_other_forms(doubtful, heads, known), known)
    _check_copies(storage, {place: head for place, head in heads.items() if place not in twice}, doubtful)
    orphans = {place: index for place, index in indexes.items() if place in doubtful or place not in heads}
    _check_lookups(storage, doubtful, orphans)


def _linked_twice(storage: Storage, places: Iterable[_Place]) -> set[_Place]:
    """Return the places that are one and the same file under several names: a stage that was published repeatedly."""
    by_file: dict[Hashable, list[_Place]] = {}
    for place in places:
        by_file.setdefault(storage.identity(place.file()), []).append(place)
    return {place for group in by_file.values() if len(group) > 1 for place in group}


def _without_other_forms(
    doubtful: Mapping[_Place, int], heads: Mapping[_Place, StoreHeader], known: Mapping[int, SegmentEntry]
) -> dict[_Place, int]:
    """Return the doubtful places without those of a known store that was compressed, or made plain again."""
    forms = {(entry.base_offset, entry.salt): entry.compressed for entry in known.values()}
    return {
        place: salt
        for place, salt in doubtful.items()
        if not (forms.get((place.base_offset, salt)) or (heads[place].blocks and (place.base_offset, salt) in forms))
    }


def _check_known(storage: Storage, doubtful: Mapping[_Place, int], known: Mapping[int, SegmentEntry]) -> None:
    numbers: dict[int, set[int]] = {}
    for number, entry in known.items():
        numbers.setdefault(entry.salt, set()).add(number)
    for place, salt in doubtful.items():
        here = known.get(place.number)
        if place.number not in numbers.get(salt, {place.number}) or (here is not None and here.salt != salt):
            raise _out_of_place(storage, place, "by MANIFEST.prev its file number belongs to another file")


def _check_copies(storage: Storage, heads: Mapping[_Place, StoreHeader], doubtful: Mapping[_Place, int]) -> None:
    """Check that no two stores have the same salt, except for a store and its compressed form."""
    first: dict[int, _Place] = {}
    for place, head in heads.items():
        other = first.setdefault(head.salt, place)
        same_records = place.base_offset == other.base_offset and (head.blocks or heads[other].blocks)
        if other != place and not same_records:
            wrong, right = (place, other) if place in doubtful else (other, place)
            raise _out_of_place(storage, wrong, f"it is the same store as {right.file()} under another name")


def _check_lookups(storage: Storage, doubtful: Mapping[_Place, int], orphans: Mapping[_Place, bytes]) -> None:
    """Check that no lookups match the store of another name. orphans: places whose index, if any, matches no store."""
    indexes = {place: index for place, index in orphans.items() if _claimed_base(index) == place.base_offset}
    for place, salt in doubtful.items():
        _refuse_any(storage, place, (other for other, index in indexes.items() if _bound_base(index, salt) is not None))
    strangers = {place: salt for place, salt in doubtful.items() if not _fits_sparse(storage, place, salt)}
    others = [place for place in orphans if place in strangers or place not in doubtful]
    if len(strangers) * len(others) <= MOST_PAIRS:
        for place, salt in strangers.items():
            _refuse_any(storage, place, (other for other in others if _fits_sparse(storage, other, salt)))


def _refuse_any(storage: Storage, place: _Place, others: Iterator[_Place]) -> None:
    for other in others:
        raise _out_of_place(storage, place, f"the lookups beside {other.file()} belong to it")


def _lookups(names: Iterable[str]) -> Iterator[_Place]:
    for name in names:
        parsed = filename.parse_segment_file(name)
        if parsed is not None and parsed.kind != filename.STORE:
            yield _Place(parsed.base_offset, parsed.number)


def _out_of_place(storage: Storage, place: _Place, why: str) -> CorruptLog:
    return CorruptLog(
        f"{storage.path}/{place.file()}: MANIFEST is lost, and this store has the name of another one ({why}); nothing "
        "was changed: restore its name, or move it away to open the log without it"
    )


def head_of(storage: Storage, name: str) -> StoreHeader | None:
    """Return a store's header; None if the header is damaged or the store is missing."""
    try:
        store = storage.open(name)
    except StorageError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return decode_header(store.pread(HEADER_BYTES, 0), store.path)


def _log_id(storage: Storage, name: str) -> int | None:
    """Return the id of the log that a store belongs to; None if the store is missing or damaged."""
    head = head_of(storage, name)
    return None if head is None else head.log_id


def _has_own_lookups(storage: Storage, name: str) -> bool:
    """Whether a lookup beside a store was made for it."""
    parsed, head = filename.parse_segment_file(name), head_of(storage, name)
    if parsed is None or head is None:
        return False
    place = _Place(parsed.base_offset, parsed.number)
    own = _bound_base(_index_head(storage, place), head.salt) == place.base_offset
    return own or _fits_sparse(storage, place, head.salt)


def _index_head(storage: Storage, place: _Place) -> bytes:
    return read_whole(storage, place.file(filename.INDEX), DENSE_HEADER_BYTES)


def _claimed_base(index: bytes) -> int | None:
    return int.from_bytes(index[:8], "little") if len(index) == DENSE_HEADER_BYTES else None


def _bound_base(index: bytes, salt: int) -> int | None:
    """Return the base offset that an index records for the store with this salt; None if it is of another store."""
    base = _claimed_base(index)
    return base if base is not None and decode_durable_records(index, base, salt) is not None else None


def _fits_sparse(storage: Storage, place: _Place, salt: int) -> bool:
    """Whether a sparse lookup at a place belongs to the store with this salt."""
    files = (place.file(kind) for kind in (filename.OFFSETS, filename.TIMES))
    return any(is_bound(read_whole(storage, file), salt) for file in files)
