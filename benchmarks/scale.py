"""The amounts that are measured: a full run for published ratios, and a quick one that only shows that it works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Scale:
    """repeats: pairs after the warm-up; file_bytes: of one store; calls: of one record each, timed together; records:
    of the log that is read at random; segments: of the log that has many; starts: of a process, in pairs; spark_rows,
    spark_bytes: of the log that Spark reads, whichever is less; spark_repeats: pairs of jobs, which take seconds each;
    syncs: of one record each; recovered_bytes: of a store that is recovered, recoveries: pairs of recoveries;
    peer_records: that a peer's own program appends or compacts, peer_repeats: pairs with it.
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
    syncs: int
    recovered_bytes: int
    recoveries: int
    peer_records: int
    peer_repeats: int


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
    syncs=500,
    recovered_bytes=2**30,
    recoveries=5,
    peer_records=300_000,
    peer_repeats=5,
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
    syncs=50,
    recovered_bytes=64 * 2**20,
    recoveries=2,
    peer_records=50_000,
    peer_repeats=2,
)
