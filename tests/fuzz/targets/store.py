"""A store's header and records: plain Python and the kernels must agree on every record, and on where they end.

Input: a store as it is, or choices that write records and damage them, with checksums made to hold again.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from xxhash import xxh64_intdigest

from seglog.errors import FormatVersionError
from seglog.format.codec import HEAD_BYTES, NATIVE, NULL, InvalidRecord, Rules, encode_headers
from seglog.format.index import MarkBuilder
from seglog.format.store import HEADER_BYTES, StoreHeader, decode_header
from seglog.segment.resync import Found, find_record
from seglog.segment.stats import Block, _by_kernel, _by_walk
from seglog.segment.walk import StoreWalk
from tests.fuzz.choices import Choices, mangled
from tests.fuzz.files import file_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seglog.storage import File

SALT, LOG_ID, CREATED, BASE = 0x5EED_5EED_5EED_5EED, 7, 1_700_000_000_000_000, 10
INTERVAL = 64
HEADER = StoreHeader(SALT, LOG_ID, CREATED).encode()
HEADERS = ((), (("k", b"v"),), (("ä", None), ("", b"")), (("name", b"x" * 40),) * 3)
AS_IT_IS, WRITTEN = b"\0", b"\1"


def seeds() -> Iterator[bytes]:
    yield b""
    records = b"".join(
        b"".join(NATIVE.encode(number, CREATED + number, key, value, encode_headers(headers), SALT)[0])
        for number, (key, value, headers) in enumerate(
            [(None, b"plain", ()), (b"k", None, HEADERS[1]), (b"", b"", HEADERS[2]), (b"key", b"v" * 100, HEADERS[3])]
        )
    )
    yield AS_IT_IS + HEADER + records
    yield AS_IT_IS + HEADER + records[:-1]
    yield AS_IT_IS + HEADER + records[:40] + bytes(24) + records[40:]
    yield WRITTEN + bytes(range(48))
    yield WRITTEN + bytes(range(200, 255)) * 2


def target(data: bytes) -> None:
    store = written(Choices(data[1:])) if data[:1] == WRITTEN else data[1:]
    _check_header(store)
    file = file_of(store)
    for dense in (True, False):
        rules = Rules(BASE, SALT, dense)
        walked = list(_by_walk(file, rules, HEADER_BYTES, len(store), BASE, MarkBuilder(INTERVAL)))
        compiled = list(_by_kernel(file, rules, HEADER_BYTES, len(store), BASE, MarkBuilder(INTERVAL)))
        assert _sum(walked) == _sum(compiled), f"{_sum(walked)} walked, {_sum(compiled)} by the kernel"
        _check_records(file, rules, store)
    _check_search(file, Rules(BASE, SALT, dense=False), store)


def _check_header(store: bytes) -> None:
    try:
        header = decode_header(store, "store")
    except FormatVersionError:
        return
    if header is not None and struct.unpack_from("<H", store, 8)[0] == 1 and not any(store[48:56]):
        assert header.encode() == store[:HEADER_BYTES]


class _Sum(NamedTuple):
    records: int
    position: int
    next_offset: int
    entries: bytes
    marks: bytes
    tombstones: int
    bounds: tuple[int | None, int | None]
    ended: bool


def _sum(blocks: list[Block]) -> _Sum:
    lows = [block.min_timestamp for block in blocks if block.min_timestamp is not None]
    highs = [block.max_timestamp for block in blocks if block.max_timestamp is not None]
    return _Sum(
        sum(block.records for block in blocks),
        blocks[-1].position,
        blocks[-1].next_offset,
        b"".join(block.entries for block in blocks),
        b"".join(block.marks for block in blocks),
        sum(block.tombstones for block in blocks),
        (min(lows, default=None), max(highs, default=None)),
        blocks[-1].reason is None,
    )


def _check_records(file: File, rules: Rules, store: bytes) -> None:
    """Decoded bytes equal the encoding of the record; a value that is cut short reports its length."""
    walk = StoreWalk(file, rules, position=HEADER_BYTES, end=len(store), expected=BASE)
    short = iter(StoreWalk(file, rules, position=HEADER_BYTES, end=len(store), expected=BASE, keep=3))
    for record, checksum, length in walk:
        headers = encode_headers(record.headers)
        parts, found, _ = NATIVE.encode(
            record.offset - BASE, record.timestamp, record.key, record.value, headers, rules.salt
        )
        assert found == checksum
        assert b"".join(parts) == store[walk.position - length : walk.position]
        assert next(short)[0] == record  # no record here is long


def _check_search(file: File, rules: Rules, store: bytes) -> None:
    """The search after damage finds what trying every position finds."""
    start = HEADER_BYTES + 1
    assert find_record(file, rules, position=start, end=len(store), least=BASE) == next(_valid(store, start), None)


def _valid(store: bytes, start: int) -> Iterator[Found]:
    for position in range(start, len(store) - HEAD_BYTES + 1):
        try:
            yield Found(position, NATIVE.decode(store, position, len(store), BASE, SALT)[0].offset)
        except InvalidRecord:
            continue


# --- records that choices write ---------------------------------------------------------------------------------------


def written(choices: Choices) -> bytes:
    """Return a store: records with what may stand in them, some fields odd, every checksum as it should be."""
    relative, records = 0, []
    for _ in range(choices.below(8)):
        key = choices.some(12) if choices.flag() else None
        value = None if choices.below(4) == 0 else choices.some(200)
        record = bytearray(_record(relative, choices.number(8), key, value, _headers(choices)))
        if choices.below(4) == 0:
            struct.pack_into("<I", record, choices.of((8, 12, 16, 20)), choices.number(4))
        records.append(sealed(bytes(record), SALT))
        relative += choices.of((1, 1, 1, 1, 2, 1000, 0))
    store = HEADER + b"".join(records)
    for _ in range(choices.below(3)):
        store = mangled(store, choices)
    return store


def _headers(choices: Choices) -> bytes:
    encoded = encode_headers(choices.of(HEADERS))
    return mangled(encoded, choices) if choices.below(4) == 0 else encoded


def _record(relative: int, timestamp: int, key: bytes | None, value: bytes | None, headers: bytes) -> bytes:
    signed = timestamp - 2**64 if timestamp >= 2**63 else timestamp
    return b"".join(NATIVE.encode(relative, signed, key, value, headers, SALT)[0])


def sealed(record: bytes, salt: int) -> bytes:
    """Return a record with a checksum that holds, as far as its lengths lie within it."""
    if len(record) < HEAD_BYTES:
        return record
    metadata, value = struct.unpack_from("<II", record, 8)
    middle = 12 + metadata
    end = middle + (0 if value == NULL else value)
    if end > len(record):
        return record
    checksum = xxh64_intdigest(record[8:middle], salt ^ xxh64_intdigest(record[middle:end]))
    return struct.pack("<Q", checksum) + record[8:]
