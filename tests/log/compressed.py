"""Logs with compressed segments that tests make, and what is read of them."""

from __future__ import annotations

import random
from itertools import islice
from typing import TYPE_CHECKING, Any

import seglog
from seglog.config import LogConfig, Retention
from seglog.testing.internals import state_of

if TYPE_CHECKING:
    from pathlib import Path

    from seglog.config import Compression
    from seglog.log.log import Log

SEGMENT_BYTES = 200_000
RECORDS = 5000
CODECS: list[Compression] = ["lz4", "zstd"]


def value(number: int) -> bytes:
    return b'{"number": %d, "city": "%s", "carrier": "UA"}' % (number, b"EWR JFK LGA SFO".split()[number % 4])


def fill(log: Log, start: int, stop: int) -> None:
    """Append records of about 100 bytes; a few are longer than a block, or tombstones, or have headers."""
    rows = [
        (number * 1000, f"k{number % 700}".encode(), None if number % 97 == 5 else value(number), [("h", b"x")])
        if number % 50 == 0
        else (number * 1000, f"k{number % 700}".encode(), value(number) * (2000 if number % 1999 == 7 else 1), [])
        for number in range(start, stop)
    ]
    for timestamp, key, content, headers in rows:
        log.append(content, key=key, timestamp=timestamp, headers=headers)


def made(place: Any, codec: Compression, *, sparse: bool = False, records: int = RECORDS) -> Log:
    """Return a log with some sealed segments that are not compressed yet, and an active one."""
    retention = Retention(compact=True) if sparse else Retention()
    config = LogConfig(
        segment_bytes=SEGMENT_BYTES, compression=codec, retention=retention, buffer_bytes=65536, open_segments_max=2
    )
    log = seglog.open(place, config)
    fill(log, 0, records)
    if sparse:
        log.compact(roll=True)
        fill(log, records, records + 200)
    log.sync()
    return log


def everything(log: Log) -> list[seglog.Record]:
    return list(log.scan())


def entries(log: Log) -> Any:
    return state_of(log).live.catalog.current.segments[:-1]


def stores(path: Path) -> dict[int, bytes]:
    """Base offset -> bytes of every store in a directory."""
    return {int(one.name[:20]): one.read_bytes() for one in sorted(path.glob("*.store"))}


def compressed(path: Path, codec: Compression = "zstd", *, sparse: bool = False) -> tuple[list[seglog.Record], Any]:
    with made(path, codec, sparse=sparse) as log:
        log.compress()
        return everything(log), tuple(entries(log))


def check_all_reads(log: Log, before: list[seglog.Record], table: Any) -> None:
    assert everything(log) == before
    assert log.to_arrow().equals(table)
    assert [len(batch) for batch in log.batches(max_records=100)]
    assert sum(len(batch) for batch in log.batches(max_records=100)) == len(before)
    chosen = random.Random(1).sample(before, 300)
    assert [log.read(one.offset) for one in chosen] == chosen
    assert log.read_many([one.offset for one in chosen]) == chosen
    first, last = before[len(before) // 3].offset, before[len(before) // 2].offset
    part = [one for one in before if first <= one.offset < last]
    assert list(log.scan(first, last)) == part
    assert sum(len(batch) for batch in log.batches(first, last)) == len(part)
    assert log.offset_at(part[0].timestamp) <= part[0].offset
    assert list(islice(log.follow(first, timeout=0), len(part))) == part
