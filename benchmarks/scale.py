"""How much is measured: the full run that ratios are quoted from, and a quick one that only shows that it works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Scale:
    """repeats: pairs behind the warm-up; file_bytes: of one store; calls: of one record each, timed together; records:
    of the log that is read at random; segments: of the log that has many; starts: of a process, in pairs; spark_rows,
    spark_bytes: of the log that Spark reads, whichever is less; spark_repeats: pairs of jobs, which take seconds each.
    """

    repeats: int
    file_bytes: int
    calls: int
    records: int
    segments: int
    starts: int
    spark_rows: int
    spark_bytes: int
    spark_repeats: int


FULL = Scale(
    repeats=11,
    file_bytes=96 * 2**20,
    calls=100_000,
    records=200_000,
    segments=10_000,
    starts=11,
    spark_rows=5_000_000,
    spark_bytes=1200 * 10**6,
    spark_repeats=5,
)
QUICK = Scale(
    repeats=3,
    file_bytes=16 * 2**20,
    calls=10_000,
    records=20_000,
    segments=50,
    starts=3,
    spark_rows=100_000,
    spark_bytes=50 * 10**6,
    spark_repeats=2,
)
