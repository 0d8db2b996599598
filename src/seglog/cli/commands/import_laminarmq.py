"""`import LOG DIR` of a laminarmq directory: records keep their offsets and are compared after the import.

The import can be repeated after an interruption or when laminarmq's log has grown: it first compares what the log holds
with the source, then imports what is missing. If the two differ, it imports nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

import seglog
from seglog.cli.config_options import config_from
from seglog.cli.frame import Args
from seglog.cli.lock_wait import patiently
from seglog.cli.open_log import opened
from seglog.cli.progress import progress
from seglog.cli.tables import HEADERS
from seglog.config import LogConfig
from seglog.errors import CorruptLog, InvalidArgument, LogNotFound
from seglog.log.laminarmq import LaminarmqLog, Run, open_laminarmq
from seglog.log.log import Log
from seglog.record import Record
from seglog.terminal import output
from seglog.terminal.exits import saying_what_went_in
from seglog.terminal.units import format_count

METADATA_HEADER = "laminarmq-metadata"
_SCHEMA = pa.schema({"offset": pa.int64(), "value": pa.large_binary(), "headers": HEADERS})


def import_log(args: Args) -> int:
    """Run the import. Raises CorruptRecord for a damaged source, after importing the records before the damage."""
    began = time.monotonic()
    source = open_laminarmq(args.file)
    for event in source.recovery.events:
        output.note(f"laminarmq: {event.kind}: {event.path}: {event.detail}")
    next(source.scan(), None)  # fail on an unreadable source before creating a log
    config = _config(args, source)
    with patiently(lambda: opened(args.log, config, mode="a"), args.wait) as log:
        start, held = _start(source, log)
        with saying_what_went_in(log), progress("import", unit=" records", quiet=args.quiet) as report:
            for batch in batches(source, start):
                _append(log, batch)
                report(log.next_offset - start, source.next_offset - start)
            log.sync()
        compared = sum(_compare(log, batch, log.lowest_offset) for batch in batches(source, start))
    _say(args, source, {"records": compared, "held": held, "first_offset": start}, time.monotonic() - began)
    return 0


def batches(source: LaminarmqLog, start: int, stop: int | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the records of a source as batches (offset, value, headers) without gaps.

    What laminarmq's user stored with a record becomes the header METADATA_HEADER, as bincode wrote it.
    """
    for run in source.runs(start, stop):
        whole, begin = _batch(run), 0
        for end in (number for number in range(1, whole.num_rows + 1) if _ends(run.offsets, number)):
            yield whole.slice(begin, end - begin)
            begin = end


def _ends(offsets: list[int], number: int) -> bool:
    return number == len(offsets) or offsets[number] != offsets[number - 1] + 1


def _batch(run: Run) -> pa.RecordBatch:
    told = [data for data in run.metadata if data]
    pairs = pa.array([{"key": METADATA_HEADER, "value": data} for data in told], HEADERS.value_type)
    ends = list(accumulate((bool(data) for data in run.metadata), initial=0))
    headers = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pairs, HEADERS)
    values = pa.array(run.values, pa.large_binary())
    return pa.record_batch([pa.array(run.offsets, pa.int64()), values, headers], schema=_SCHEMA)


def _config(args: Args, source: LaminarmqLog) -> LogConfig | None:
    """Return the config to open the log with; a new log starts at the source's lowest offset."""
    config = config_from(args)
    with contextlib.suppress(LogNotFound), seglog.open(args.log, mode="r"):
        return config
    if args.initial_offset not in (None, source.lowest_offset):
        raise InvalidArgument(
            f"--initial-offset: the records keep their offsets, which start at {source.lowest_offset}; omit it"
        )
    return dataclasses.replace(config or seglog.LogConfig(), initial_offset=source.lowest_offset)


def _start(source: LaminarmqLog, log: Log) -> tuple[int, int]:
    """Return the offset to continue at, and how many records of the source the log holds already, compared.

    Raises InvalidArgument if the log's records differ from the source's, or end before those start.
    """
    if log.next_offset < source.lowest_offset:
        raise InvalidArgument(
            f"{log.path} continues at {log.next_offset}, laminarmq's log starts at {source.lowest_offset}: "
            "the records between them are missing; import into a new log"
        )
    lowest = max(log.lowest_offset, source.lowest_offset)
    start = min(log.next_offset, source.next_offset)
    try:
        held = sum(_compare(log, batch, lowest) for batch in batches(source, lowest, max(lowest, start)))
    except CorruptLog as error:
        raise InvalidArgument(f"{error}; import into a new log") from error
    return start, held


def _append(log: Log, batch: pa.RecordBatch) -> None:
    """Append a batch at its own offsets; after a gap the first record is appended on its own."""
    first = batch.column("offset")[0].as_py()
    if first > log.next_offset:
        headers = tuple((pair["key"], pair["value"]) for pair in batch.column("headers")[0].as_py())
        log.append_at(first, Record(first, time.time_ns() // 1000, None, batch.column("value")[0].as_py(), headers))
        batch = batch.slice(1)
    log.append_batch(batch)


def _compare(log: Log, batch: pa.RecordBatch, lowest: int) -> int:
    """Return how many records of a batch the log holds from `lowest` on. Raises CorruptLog if one differs."""
    batch = batch.filter(pc.greater_equal(batch.column("offset"), lowest))
    if not batch.num_rows:
        return 0
    first, last = batch.column("offset")[0].as_py(), batch.column("offset")[-1].as_py()
    there = log.to_arrow(first, last + 1, values="binary").select(_SCHEMA.names).cast(_SCHEMA)
    if not there.equals(pa.table(batch)):
        raise CorruptLog(f"{log.path}: offsets {first} to {last} differ from laminarmq's log")
    return int(batch.num_rows)


def _say(args: Args, source: LaminarmqLog, counts: dict[str, int], seconds: float) -> None:
    count, held, start = counts["records"], counts["held"], counts["first_offset"]
    if args.json:
        torn = sum(event.bytes for event in source.recovery.events)
        more = {"next_offset": source.next_offset, "torn_bytes": torn, "seconds": round(seconds, 3)}
        output.say_json({**counts, **more})
    elif not args.quiet:
        span = f" as offsets {start} to {source.next_offset - 1}" if count else ""
        there = f", {format_count(held, 'record')} already present" if held else ""
        output.say(f"imported {format_count(count, 'record')}{span}{there}, all compared, in {seconds:.2f} s")
