"""The simulator of benchmarks/generations.py moves and keeps about what a real log does with the same updates."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from benchmarks import generations
from benchmarks.generations import RECORD_BYTES, UPDATES, SimulatedLog

import seglog
from seglog import LogConfig, Retention
from seglog.compaction.rate_limit import Pace
from seglog.format.store import HEADER_BYTES

VALUE = b"x" * (RECORD_BYTES - 32 - 8)


class RealLog:
    """A log in memory that is given the same keys, sealed after as many records."""

    def __init__(self, ratio: float) -> None:
        self.now = 1_700_000_000_000_000
        retention = Retention(compact=True, min_dirty_ratio=ratio)
        size = HEADER_BYTES + generations.SEGMENT_RECORDS * RECORD_BYTES
        config = LogConfig(segment_bytes=size, segment_age=1, retention=retention)
        self.log = seglog.open(seglog.MemoryStorage(), config, clock=lambda: self.now)

    def append(self, keys: Any) -> None:
        names = [b"%08d" % key for key in keys]
        self.log.append_batch(pa.table({"key": names, "value": [VALUE] * len(names)}))
        self.now += 2_000_000
        self.log.expire()

    @property
    def size(self) -> int:
        return sum(segment.records for segment in self.log.segments) * RECORD_BYTES


@pytest.mark.parametrize(("updates", "ratio"), [("uniform", 0.5), ("10% of keys take 90%", 0.3), ("Zipf 0.99", 0.5)])
def test_21_a_real_log_moves_what_the_simulated_one_does(monkeypatch: Any, updates: str, ratio: float) -> None:
    moved = 0
    move = Pace.move

    def count(pace: Pace, size: int) -> None:
        nonlocal moved
        moved += size
        move(pace, size)

    monkeypatch.setattr(generations, "KEYS", 4000)
    monkeypatch.setattr(generations, "SEGMENT_RECORDS", 200)
    monkeypatch.setitem(UPDATES, "Zipf 0.99", generations.zipf())
    monkeypatch.setattr(Pace, "move", count)
    simulated, real = SimulatedLog(UPDATES[updates], ratio), RealLog(ratio)
    sizes = []
    simulated.fill()
    for segment in simulated.segments:
        real.append(segment.keys)
    real.log.compact()
    moved = 0
    for _ in range(10 * generations.KEYS // generations.SEGMENT_RECORDS):
        simulated.append()
        real.append(simulated.segments[-1].keys)
        if generations.standing(simulated.manifest, 0).due == "dirty":
            simulated.generational()
        if real.log.standing().due == "dirty":
            real.log.compact(generational=True)
        sizes.append(real.size / simulated.size)
    assert moved == pytest.approx(simulated.moved, rel=0.1)
    assert sum(sizes) / len(sizes) == pytest.approx(1, abs=0.05)
    assert real.log.verify().ok
