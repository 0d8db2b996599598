"""Long records are read without holding more of their values than was asked for, and verified all the same."""

from __future__ import annotations

import pytest

from seglog import CorruptRecord, LogConfig, Retention
from seglog.log.opening import open_log
from seglog.record import Cut, value_size
from seglog.storage import MemoryStorage
from seglog.testing.internals import storage_of
from seglog.topic.fetch import fetch_batches, fetch_records

MIB = 1024 * 1024
LONG = bytes(range(256)) * (12 * 1024)  # 3 MiB


@pytest.fixture(params=["every offset", "gaps"])
def log(request):
    """Records 1 (small), 2 (3 MiB), 3 (small); record 0 is gone where there are gaps."""
    config = LogConfig(retention=Retention(compact=True))
    with open_log(MemoryStorage(), config) as log:
        log.append(b"old", key=b"a")
        log.append(b"new", key=b"a")
        log.append(LONG, key=b"b", headers=[("h", b"v")])
        log.append(b"last", key=b"c")
        if request.param == "gaps":
            log.compact(roll=True)
        yield log


def test_a_long_value_is_read_whole_or_cut(log):
    whole, cut, fits = log.read(2), log.read_cut(2, 10), log.read_cut(2, len(LONG))
    assert whole.value == fits.value == LONG
    assert (type(whole.value), type(fits.value), cut.value) == (bytes, bytes, LONG[:10])
    assert isinstance(cut.value, Cut)
    assert value_size(cut.value) == len(LONG)
    assert cut._replace(value=LONG) == whole


def test_a_scan_cuts_as_well_and_goes_on_behind(log):
    shown = [(record.offset, bytes(record.value), value_size(record.value)) for record in log.view().scan(1, 4, keep=5)]
    assert shown == [(1, b"new", 3), (2, LONG[:5], len(LONG)), (3, b"last", 4)]
    assert [record.value for record in log.scan(1)] == [b"new", LONG, b"last"]


def test_a_cut_value_counts_whole(log):
    assert fetch_records(log, 2, max_records=9, max_bytes=100, keep=5).next_offset == 3


def test_a_long_record_is_not_read_to_find_that_it_does_not_fit(log):
    found = fetch_batches(log, 1, max_records=9, max_bytes=2 * MIB)
    assert ([batch.num_rows for batch in found.batches], found.next_offset) == ([1], 2)
    assert sum(batch.num_rows for batch in fetch_batches(log, 1, max_records=9, max_bytes=4 * MIB).batches) == 3


def test_the_room_for_a_record_is_known_before_it_is_read(log):
    assert len(LONG) < log.view().span_bytes(2, 3) < len(LONG) + 16 * 1024
    assert log.view().span_bytes(3, 4) < 16 * 1024


@pytest.mark.parametrize("where", [100, len(LONG) // 2, len(LONG) - 1])
def test_damage_anywhere_in_a_long_value_is_found_however_little_is_wanted(log, where):
    reader = log.view().reader_of(2)
    store = storage_of(log).open(reader.store.path.rpartition("/")[2], writable=True)
    at = bytes(store.map()).index(LONG) + where
    store.pwrite(bytes([LONG[where] ^ 1]), at)
    for look in (
        lambda: log.read(2),
        lambda: log.read_cut(2, 0),
        lambda: list(log.view().scan(2, 3, keep=0)),
        lambda: list(log.scan(1)),
    ):
        with pytest.raises(CorruptRecord):
            look()
