"""A log that simulates a terabyte: fast to open, readable anywhere, with bounded memory and few open files.

The stores and indexes are sparse files: they have contents where the tests read, and holes elsewhere.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.config import LogConfig
from seglog.format.codec import NATIVE
from seglog.format.filename import INDEX
from seglog.format.index import DENSE_ENTRY, encode_dense_header, entry_position
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.format.store import HEADER_BYTES, StoreHeader
from seglog.testing.faulty import FaultyStorage

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.no_cover
SEGMENTS = 1000
RECORD = 100
RECORDS = (2**30 - HEADER_BYTES) // RECORD  # in each segment
THERE = (0, RECORDS // 3, RECORDS - 1)  # the records of a segment that are real
OPEN_MAX = 16
MEMORY_MAX = 160 * 1024 * 1024


def write_segment(path: Path, entry: SegmentEntry) -> None:
    with (path / entry.name()).open("wb") as store, (path / entry.name(INDEX)).open("wb") as index:
        store.write(StoreHeader(entry.salt, 1, entry.created).encode())
        sealed = entry.sealed
        index.write(encode_dense_header(entry.base_offset, RECORDS if sealed else 0, entry.salt))
        if not sealed:
            return
        for relative in THERE:
            value = (b"%d" % (entry.base_offset + relative)).ljust(RECORD - 32, b"-")
            parts, checksum, length = NATIVE.encode(relative, relative, None, value, b"", entry.salt)
            assert length == RECORD
            position = HEADER_BYTES + relative * RECORD
            store.seek(position)
            store.write(b"".join(parts))
            index.seek(entry_position(relative))
            index.write(DENSE_ENTRY.pack(checksum, length, position))
        assert store.tell() == entry.bytes


@pytest.fixture(scope="module")
def terabyte(tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("scale") / "orders"
    path.mkdir()
    end = HEADER_BYTES + RECORDS * RECORD
    sealed = [
        SegmentEntry(
            base_offset=number * RECORDS,
            file=number + 1,
            salt=number + 7,
            created=1,
            next_offset=(number + 1) * RECORDS,
            bytes=end,
            records=RECORDS,
            tombstones=0,
            min_timestamp=0,
            max_timestamp=RECORDS,
            sealed_at=2,
            digest=0,
        )
        for number in range(SEGMENTS)
    ]
    active = SegmentEntry(base_offset=SEGMENTS * RECORDS, file=SEGMENTS + 1, salt=5, created=1)
    for entry in (*sealed, active):
        write_segment(path, entry)
    manifest = Manifest(
        log_id=1,
        version=1,
        epoch=0,
        next_file=SEGMENTS + 2,
        start=0,
        config=LogConfig(open_segments_max=OPEN_MAX),
        segments=(*sealed, active),
    )
    (path / "MANIFEST").write_bytes(manifest.encode())
    return path


READ = """
import json, os, random, sys, time
import seglog
path, mode, way = sys.argv[1:4]
records, segments = map(int, sys.argv[4:])

def status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

begun = time.monotonic()
log = seglog.open(path, mode=mode)
opened = time.monotonic() - begun
places = [number * records + there for number in range(segments) for there in (0, records // 3, records - 1)]
random.Random(1).shuffle(places)
begun, most = time.monotonic(), 0
for offset in places:
    if way == "arrow":
        value = log.to_arrow(offset, offset + 1).column("value")[0].as_py()
    else:
        value = log.read(offset).value
        assert next(log.scan(offset)).offset == offset
    assert int(value.rstrip(b"-")) == offset, value
    most = max(most, len(os.listdir("/proc/self/fd")))
print(json.dumps({
    "open_seconds": opened, "read_seconds": time.monotonic() - begun, "reads": len(places), "files": most,
    "memory": status("VmHWM:"), "size": log.size, "next_offset": log.next_offset,
}))
"""


def measured(script: Any, path: Path, mode: str, way: str, segments: int = SEGMENTS) -> Any:
    return json.loads(script(READ, path, mode, way, RECORDS, segments))


@pytest.mark.parametrize("mode", ["a", "r"])
def test_a_terabyte_opens_at_once_and_is_read_anywhere_in_little_memory(terabyte: Path, script: Any, mode: str) -> None:
    figures = measured(script, terabyte, mode, "records")
    assert figures["size"] > 10**12
    assert figures["next_offset"] == SEGMENTS * RECORDS
    assert figures["open_seconds"] < 3, "below 1 s on a quiet machine"
    assert figures["memory"] < MEMORY_MAX
    assert figures["files"] <= 2 * OPEN_MAX + 20


def test_arrow_reads_a_record_of_a_terabyte_without_reading_the_rest(terabyte: Path, script: Any) -> None:
    figures = measured(script, terabyte, "r", "arrow", segments=100)
    assert figures["files"] <= 2 * OPEN_MAX + 20
    assert figures["memory"] < 4 * MEMORY_MAX, "pyarrow and the compiler are most of it"


APPEND = """
import sys
import numpy as np, pyarrow as pa, seglog

def anonymous():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))

def table(rows):
    ends = np.arange(rows + 1, dtype=np.int32) * 100
    values = pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(ends), pa.py_buffer(bytes(100 * rows))])
    return pa.table({"value": values})

rows, batches = map(int, sys.argv[2:])
batch, held = table(rows), []
with seglog.open(sys.argv[1], seglog.LogConfig(segment_bytes=64 * 2**20)) as log:
    for _ in range(batches):
        log.append_batch(batch)
        held.append(anonymous())
    assert sum(one.num_rows for one in log.batches()) == rows * batches
    print(held[0], max(held[1:]), anonymous())
"""


def test_appending_batches_keeps_no_memory(path: Path, script: Any) -> None:
    first, most, scanned = map(int, script(APPEND, path, 300_000, 8).split())
    assert most - first < 24 * 2**20, "a fraction of the 8 * 30 MB that were appended"
    assert scanned - first < 48 * 2**20


@pytest.mark.parametrize(("mode", "sweeps"), [("a", ["names", "sizes"]), ("r", ["names"])])
def test_opening_sweeps_the_directory_once(mode: Any, sweeps: list[str]) -> None:
    faulty = FaultyStorage(seglog.MemoryStorage())
    with seglog.open(faulty, LogConfig(segment_bytes=512)) as log:
        for _ in range(30):
            log.append(bytes(400))
    faulty.calls.clear()
    with seglog.open(faulty, mode=mode) as log:
        assert [
            call.operation for call in faulty.calls if call.name == "" and call.operation in ("names", "sizes")
        ] == sweeps
        assert len(log.segments) == 30
