"""Ranges of a store of which only what was asked for is there, as in an archive's cache."""

from __future__ import annotations

from typing import Any

import seglog
from seglog import LogConfig, Retention
from seglog.testing.internals import state_of


class Exact:
    """A file that holds zeros except for what was asked for; see RangedFile."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def map_range(self, start: int, stop: int) -> memoryview:
        data = bytearray(self._file.size())
        data[start:stop] = self._file.pread(stop - start, start)
        return memoryview(bytes(data))


def test_a_range_may_end_in_a_gap(place: Any) -> None:
    config = LogConfig(segment_bytes=1 << 20, index_interval_bytes=256, retention=Retention(compact=True))
    with seglog.open(place, config) as log:
        for number in range(600):
            log.append(b"value %d" % number, key=b"%d" % (number if number % 7 == 0 else 1))
        log.compact(roll=True)
        offsets = [one.offset for one in log.scan()]
        assert len(offsets) < 100, "there are gaps"
        reader = state_of(log).live.present.reader_of(0)
        reader.store = Exact(reader.store)
        for first in offsets:
            for stop in (first + 3, first + 7, first + 60):
                found = [one for batch in log.batches(first, stop) for one in batch.column("offset").to_pylist()]
                assert found == [one for one in offsets if first <= one < stop]
