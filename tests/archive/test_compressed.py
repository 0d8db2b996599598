"""Archives of logs with compressed segments: the stored bytes are uploaded, read in ranges, verified and restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import seglog
from seglog import Archiver
from seglog.archive.storage import ArchiveStorage
from seglog.archive.urls import store_at
from seglog.archive.verifying import check_sealed
from seglog.segment.sealed import open_store
from seglog.spark.read.local_logs import LocalSite
from seglog.spark.read.options import Selection
from seglog.testing.internals import state_of
from tests.archive.test_reading import Counting

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import ManualClock

CONFIG = seglog.LogConfig(segment_bytes=300_000)


def filled(path: Path, clock: ManualClock) -> seglog.Log:
    log = seglog.open(path, CONFIG, clock=clock)
    for number in range(9000):
        log.append(b'{"number": %d, "city": "EWR", "carrier": "UA"}' % number, key=b"%d" % (number % 70))
    return log


def test_a_log_is_archived_again_after_it_was_compressed(place: str, tmp_path: Path, clock: ManualClock) -> None:
    with (
        filled(tmp_path / "log", clock) as log,
        Archiver(tmp_path / "log", place, clock=clock, grace=60) as archiver,
    ):
        archiver.step()
        expected, table, plain = list(log.scan()), log.to_arrow(), log.size
        log.compress("zstd")
        assert log.size < plain / 2
        assert archiver.step().failed == {}
        clock.advance(61)
        assert archiver.step().deleted
        store = Counting(store_at(place))
        with seglog.open(ArchiveStorage(store), mode="r") as archived:
            assert archived.read(4000) == expected[4000]
            assert list(archived.scan()) == expected
            assert archived.to_arrow().equals(table)
            assert archived.verify().ok
        assert store.bytes < plain
        sealed = state_of(log).live.catalog.current.segments[:-1]
    assert seglog.restore(place, tmp_path / "back").records == 9000
    with seglog.open(tmp_path / "back", clock=clock) as back:
        assert list(back.scan()) == expected
        assert back.verify().ok
        restored = state_of(back).live.catalog.current.segments[:-1]
        assert [(one.codec, one.stored) for one in restored[: len(sealed)]] == [
            (one.codec, one.stored) for one in sealed
        ]
        for entry in restored:
            check_sealed(open_store(back._storage, entry), entry)


def test_a_damaged_compressed_segment_is_not_archived(place: str, tmp_path: Path, clock: ManualClock) -> None:
    with filled(tmp_path / "log", clock) as log:
        log.compress("lz4")
    store = sorted((tmp_path / "log").glob("*.store"))[0]
    data = bytearray(store.read_bytes())
    data[200] ^= 1
    store.write_bytes(data)
    with Archiver(tmp_path / "log", place, clock=clock) as archiver:
        assert "damaged" in next(iter(archiver.step().failed.values()))


def test_spark_reads_the_ranges_of_compressed_segments(place: str, tmp_path: Path, clock: ManualClock) -> None:
    with filled(tmp_path / "log", clock) as log, Archiver(tmp_path / "log", place, clock=clock) as archiver:
        log.compress("zstd")
        archiver.step()
        expected = list(log.scan(2000, 6000))
    for where in (str(tmp_path / "log"), place):
        with LocalSite(where) as site:
            (found,) = site.places(Selection())
            (snapshot,) = site.look_at_all([found])
            assert snapshot.next_offset == 9000
            held = site.hold(found)
            values = [value for batch, _ in held.batches(2000, 6000) for value in batch["value"].to_pylist()]
            assert values == [one.value for one in expected]
