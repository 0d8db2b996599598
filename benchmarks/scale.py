"""How much is measured: the full run that ratios are quoted from, and a quick one that only shows that it works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Scale:
    """repeats: pairs behind the warm-up; file_bytes: of one store; calls: of one record each, timed together; records:
    of the log that is read at random; segments: of the log that is opened; starts: of a process, in pairs.
    """

    repeats: int
    file_bytes: int
    calls: int
    records: int
    segments: int
    starts: int


FULL = Scale(repeats=11, file_bytes=96 * 2**20, calls=100_000, records=200_000, segments=1000, starts=11)
QUICK = Scale(repeats=3, file_bytes=16 * 2**20, calls=10_000, records=20_000, segments=50, starts=3)
