"""Export records to Parquet: topic, partition, offset, timestamp, key, value, headers; by offset within each file.

    report = export(spark, "orders", "lake/orders")
    report = export(spark, "orders", "lake/orders", start=report.next_offsets, mode="append")   # what came since

The range of an export is fixed when it starts and reported, so that a later one can continue there. A repeated export
stores nothing twice: "error" refuses an existing directory, "ignore" leaves it, "overwrite" replaces it, and "append"
adds what the directory lacks of the range, so a job that ends before it saves its offsets can be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from seglog.errors import InvalidArgument
from seglog.spark.jobs.pins import pin, positions, refuse_overlap
from seglog.spark.jobs.tasks import read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from seglog.spark.jobs.pins import Moment, Pin

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_PLACE = ("topic", "partition", "offset")
MODES = ("error", "overwrite", "ignore", "append")
_DAY_US = 86_400_000_000
# div rounds towards 0, and a double has too few digits for a distant time.
_DAYS = f"(unix_micros(timestamp) div {_DAY_US}L - if(unix_micros(timestamp) % {_DAY_US}L < 0, 1, 0))"

Mode = Literal["error", "overwrite", "ignore", "append"]


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """The result of an export. written: False if "ignore" found the directory; then records and data_bytes are 0.
    records: those that this export wrote.

    data_bytes: of keys and values; start and next_offsets: topic -> partition -> the first offset, and the one after
    the last; both describe the requested range, whether or not it was written.
    """

    written: bool
    records: int
    data_bytes: int
    start: dict[str, dict[int, int]]
    next_offsets: dict[str, dict[int, int]]


def export(
    spark: SparkSession,
    path: str | Path,
    destination: str,
    *,
    start: Moment = None,
    stop: Moment = None,
    mode: Mode = "error",
    by_date: bool = False,
    compression: str = "zstd",
) -> ExportReport:
    """Write the records of a log, a topic or a broker's topics to the directory `destination` as Parquet.

    The session's spark.sql.parquet.outputTimestampType determines the type of timestamps; `local_session` and the
    program set micros.

    Args:
        spark: The session.
        path: A log, a topic or a broker's directory.
        destination: The directory to write.
        start, stop: An offset (one log), offsets (topic -> partition -> offset) or a time, which means the first
            record at or after it; stop is exclusive.
        mode: "error", "ignore", "overwrite" or "append"; see the module.
        by_date: One directory per day of the timestamp (UTC), `date=2024-05-01`.
        compression: Of the Parquet files.

    Raises:
        InvalidArgument, OffsetOutOfRange: start, stop or mode is invalid, or the destination holds records of another
            log in the range.
        LogNotFound, NotALog: there is no log at the path.
        SeglogError: Spark cannot write to the destination.
    """
    if mode not in MODES:
        raise InvalidArgument(f"mode is {mode!r}; it must be one of {', '.join(MODES)}")
    refuse_overlap(path, destination)
    pins = pin(path, start=start, stop=stop)
    frame = records(spark, path, pins, by_date=by_date)
    if mode == "append":
        frame = _not_there_yet(spark, frame, destination, pins)
    counts = _write(frame, destination, mode, compression, by_date=by_date)
    return ExportReport(
        written=counts is not None,
        records=counts[0] if counts else 0,
        data_bytes=counts[1] if counts else 0,
        start=positions(pins, start=True),
        next_offsets=positions(pins),
    )


def records(spark: SparkSession, path: str | Path, pins: Sequence[Pin], *, by_date: bool) -> DataFrame:
    """Return the pinned records with the columns of an export, with `date` in front if requested."""
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency

    frame = read(spark, path, pins, COLUMNS)
    if not by_date:
        return frame
    day = functions.expr(f"date_from_unix_date(cast({_DAYS} as int))")
    return frame.select(day.alias("date"), *COLUMNS)


def _write(
    frame: DataFrame, destination: str, mode: Mode, compression: str, *, by_date: bool
) -> tuple[int, int] | None:
    """Write; return the records and the bytes of keys and values; None if "ignore" left the directory."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - an optional dependency
    from pyspark.sql import Observation, functions  # noqa: PLC0415 - as above

    seen = Observation()
    size = functions.expr("coalesce(octet_length(key), 0L) + coalesce(octet_length(value), 0L)")
    counted = frame.observe(
        seen, functions.count(functions.lit(1)).alias("records"), functions.sum(size).alias("data_bytes")
    )
    writer = counted.write.mode("error" if mode == "ignore" else mode).option("compression", compression)
    try:
        (writer.partitionBy("date") if by_date else writer).parquet(destination)
    except AnalysisException as error:
        if mode == "ignore" and error.getCondition() == "PATH_ALREADY_EXISTS":
            return None
        raise
    found = seen.get
    return found["records"], found["data_bytes"] or 0


def _not_there_yet(spark: SparkSession, frame: DataFrame, destination: str, pins: Sequence[Pin]) -> DataFrame:
    """Return the records that the destination lacks: all of them unless an export of the range was repeated.

    Raises InvalidArgument if it holds other records at these offsets.
    """
    held = _held(spark, destination, pins)
    if held is None:
        return frame
    millis = "date_trunc('millisecond', timestamp)"  # the least that a session writes
    known = held.selectExpr(*_PLACE, f"{millis} AS stored")
    other = frame.selectExpr(*_PLACE, f"{millis} AS logged").join(known, list(_PLACE)).where("stored <> logged").first()
    if other is not None:
        raise InvalidArgument(
            f"{destination} holds another record at offset {other['offset']} of partition {other['partition']} of "
            f"topic {other['topic']!r}: it is of another log; export to another directory, or overwrite"
        )
    return (
        frame.join(held.select(*_PLACE), list(_PLACE), "left_anti").select(*frame.columns).sortWithinPartitions(*_PLACE)
    )


def _held(spark: SparkSession, destination: str, pins: Sequence[Pin]) -> DataFrame | None:
    """Return the rows of the ranges that the destination has; None if it has none."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - an optional dependency
    from pyspark.sql import functions  # noqa: PLC0415 - as above

    try:
        there = spark.read.parquet(destination)
    except AnalysisException as error:
        if error.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            return None
        raise
    wanted = functions.lit(False)
    for one in pins:
        part = one.range
        here = (there["topic"] == part.topic) & (there["partition"] == part.partition)
        wanted |= here & there["offset"].between(part.start, part.stop - 1)
    held = there.where(wanted)
    return None if held.isEmpty() else held
