"""Small logs as bytes, the same in every run; what an input changes in them; and what must hold whatever it changed.

A change may be mended: checksums are made to hold again, so that what they guard is reached. Then contents may differ
(somebody forged them), but nothing may break. Without that, every record that is read is one that was written.
"""

from __future__ import annotations

import random
import struct
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

from xxhash import xxh64_intdigest

import seglog
from seglog.config import LogConfig, Retention
from seglog.errors import CorruptRecord, SeglogError
from seglog.format import filename
from seglog.format.codec import NATIVE, NULL, InvalidRecord
from seglog.format.index import decode_durable_records, encode_dense_header
from seglog.format.manifest_changes import decode_file
from seglog.format.store import HEADER_BYTES
from seglog.storage import MemoryStorage
from tests.fuzz.choices import Choices, mangled

if TYPE_CHECKING:
    from collections.abc import Callable

    from seglog.log.log import Log
    from seglog.record import Record

SOME = 2**16  # offsets that are given up one by one where their records are gone
IMPOSSIBLE = 2**28  # more than a store has room for
NOW = 1_700_000_000_000_000
Files = dict[str, bytes]


class Small(NamedTuple):
    """A log as its files, what it holds, the offset before which all was synced, and what it held before a cut.

    Where the manifest is lost together with the store that came with the cut, nothing is left that tells of it.
    """

    files: Files
    records: dict[int, Record]
    durable: int
    gone: list[Record]

    def ever_held(self, record: Record, *, rebuilt: bool) -> bool:
        """Whether a record is one of them; rebuilt: the manifest was rebuilt from what was left."""
        return record == self.records.get(record.offset) or (rebuilt and record in self.gone)


def _clock() -> Callable[[], int]:
    now = iter(range(NOW, NOW + 10**9, 1000))
    return lambda: next(now)


def _filled(storage: MemoryStorage, config: LogConfig) -> Log:
    return seglog.open(storage, config, clock=_clock())


def _plain(log: Log) -> list[Record]:
    for number in range(12):
        log.append(b"value %d" % number * (number % 4), timestamp=NOW + number * 7 % 5, headers=[("n", b"%d" % number)])
    return []


def _keyed(log: Log) -> list[Record]:
    for number in range(30):
        log.append(None if number % 7 == 0 else b"v" * number, key=b"k%d" % (number % 5))
    log.compact()
    log.append(b"last", key=b"k9")
    return []


def _cut(log: Log) -> list[Record]:
    _plain(log)
    gone = list(log.scan(7))
    log.truncate(7)
    log.append(b"after the cut", key=b"key")
    return gone


MAKERS: tuple[tuple[Callable[[Log], list[Record]], LogConfig], ...] = (
    (_plain, LogConfig(segment_bytes=512, segment_overflow_bytes=256, index_interval_bytes=64)),
    (
        _keyed,
        LogConfig(
            segment_bytes=512,
            segment_overflow_bytes=256,
            index_interval_bytes=64,
            retention=Retention(compact=True, delete_retention=0),
        ),
    ),
    (_cut, LogConfig(segment_bytes=512, segment_overflow_bytes=256, index_interval_bytes=64)),
    (_plain, LogConfig()),
)


@cache
def small(number: int) -> Small:
    """Return one of them, as it is while a writer has it open, with records after the last sync."""
    make, config = MAKERS[number]
    storage = MemoryStorage()
    with patch("secrets.randbits", random.Random(number).getrandbits), _filled(storage, config) as log:
        gone = make(log)
        log.sync()
        durable = log.next_offset
        for count in range(3):
            log.append(b"unsynced %d" % count, key=b"k")
        log.view()
        files = {name: _content(storage, name) for name in _names(storage)}
        records = {record.offset: record for record in log.scan()}
    return Small(files, records, durable, gone)


def _names(storage: MemoryStorage) -> list[str]:
    return [name for name in storage.sizes() if name != filename.LOCK]


def _content(storage: MemoryStorage, name: str) -> bytes:
    file = storage.open(name)
    return file.pread(file.size(), 0)


def storage_of(files: Files) -> MemoryStorage:
    """Return a storage that holds these files."""
    storage = MemoryStorage()
    storage.make(filename.DIRECTORIES)
    for name, content in files.items():
        storage.create(name).pwrite(content, 0)
    return storage


def names_of(log: Small, kind: str = "") -> list[str]:
    """Return the names of its files, of one kind or all, in order."""
    return [name for name in sorted(log.files) if name.endswith(kind)]


# --- what an input changes --------------------------------------------------------------------------------------------


def changed(files: Files, choices: Choices, names: list[str], *, mended: bool) -> Files:
    """Return files of which some were changed, lost, cut or put in one another's place."""
    files = dict(files)
    for _ in range(1 + choices.below(4)):
        name, how = choices.of(names), choices.below(10)
        if name not in files:
            continue
        if how == 0:
            del files[name]
        elif how == 1:
            files[name] = files.get(choices.of(names), b"")
        else:
            new = mangled(files[name], choices)
            files[name] = mend(name, files[name], new) if mended else new
    return files


def mend(name: str, old: bytes, new: bytes) -> bytes:
    """Make the checksums of a changed file hold again, as far as its changes left its parts in place."""
    parsed = filename.parse_segment_file(name)
    if parsed is None:
        return new
    if parsed.kind == filename.STORE:
        return _mended_store(new)
    if parsed.kind == filename.INDEX:
        return _mended_index(old, new)
    return new[:-8] + struct.pack("<Q", xxh64_intdigest(new[:-8]))


def _mended_store(new: bytes) -> bytes:
    if len(new) < HEADER_BYTES:
        return new
    new = new[:56] + struct.pack("<Q", xxh64_intdigest(new[:56])) + new[HEADER_BYTES:]
    (salt,) = struct.unpack_from("<Q", new, 16)
    position = HEADER_BYTES
    while position + 32 <= len(new):
        position, new = _mended_record(new, position, salt)
    return new


def _mended_record(store: bytes, position: int, salt: int) -> tuple[int, bytes]:
    """Give the record at a position, if its lengths fit, a checksum; return where the next one is."""
    metadata, value = struct.unpack_from("<II", store, position + 8)
    middle = position + 12 + metadata
    end = middle + (0 if value == NULL else value)
    if end > len(store) or metadata < 20:
        return len(store), store
    with suppress(InvalidRecord):
        return position + NATIVE.decode(store, position, len(store), 0, salt)[2], store
    checksum = xxh64_intdigest(store[position + 8 : middle], salt ^ xxh64_intdigest(store[middle:end]))
    return end, store[:position] + struct.pack("<Q", checksum) + store[position + 8 :]


def _mended_index(old: bytes, new: bytes) -> bytes:
    """Say of another count of records that it is durable; the salt is found by trying those of the small logs."""
    if len(new) < 16 or len(old) < 16:
        return new
    base, count = struct.unpack_from("<QI", new)
    count = count if count > IMPOSSIBLE else count % SOME
    for salt in _salts():
        if decode_durable_records(old, struct.unpack_from("<Q", old)[0], salt) is not None:
            return encode_dense_header(base, count, salt) + new[16:]
    return new


@cache
def _salts() -> list[int]:
    manifests = [
        decode_file(small(number).files[filename.MANIFEST], "MANIFEST").manifest for number in range(len(MAKERS))
    ]
    return [entry.salt for manifest in manifests for entry in manifest.segments]


# --- what must hold ---------------------------------------------------------------------------------------------------


def check_reading(log: Log, source: Small | None, *, rebuilt: bool = False) -> dict[int, Record]:
    """Read all of a log in every way; return what `read` gives. source: what alone may come; None: anything."""
    rebuilt = rebuilt or log.view().manifest.rebuilt
    damaged: list[CorruptRecord] = []
    found: dict[int, Record] = {}
    with suppress(SeglogError):
        for record in log.scan(on_corrupt=damaged.append):
            assert record.offset not in found, f"offset {record.offset} twice"
            found[record.offset] = record
    read: dict[int, Record] = {}
    for offset, record in found.items():
        assert source is None or source.ever_held(record, rebuilt=rebuilt), f"{record} is not what was written"
        read[offset] = log.read(offset)
        # A forged record may claim the offset of a genuine one: a scan meets it first and reports the other as damage.
        two = source is None and damaged and read[offset].offset == offset
        assert read[offset] == record or two, f"{read[offset]} is not {record}"
    for offset in range(log.lowest_offset, min(log.next_offset, log.lowest_offset + 64)):
        with suppress(SeglogError):
            record = log.read(offset)
            assert record.offset == offset and read.get(offset, record) == record
            assert source is None or source.ever_held(record, rebuilt=rebuilt), f"{record} is not what was written"
    _check_batches(log, found)
    _check_questions(log)
    return read


def _check_batches(log: Log, found: dict[int, Record]) -> None:
    with suppress(SeglogError):
        table = log.to_arrow()
        assert table["offset"].to_pylist() == list(found)
        assert table["value"].to_pylist() == [record.value for record in found.values()]
        assert table["key"].to_pylist() == [record.key for record in found.values()]


def _check_questions(log: Log) -> None:
    """Ask what reads indices and marks; wrong times are damage of an index, which is noticed only when it is read."""
    for moment in (0, NOW + 2, NOW + 10**6, 2**63 - 1):
        with suppress(SeglogError):
            log.offset_at(moment)
    with suppress(SeglogError):
        log.records_from(log.lowest_offset)
    assert len(log.segments) >= 1
