"""The demo step by step: the one module that knows all others. Steps are counted, timed and shown."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

import seglog
from seglog.demo import compaction, flights, ingest, output, queries, stream, tables
from seglog.demo.compaction import Holdings
from seglog.demo.compare import compare
from seglog.demo.expected import AircraftState, DelayStatistics, compute
from seglog.demo.progress import Steps
from seglog.demo.report import Run, render, size
from seglog.demo.stream import Streamed
from seglog.demo.tables import Answer
from seglog.spark.session import borrowed_session
from seglog.table import TableReport
from seglog.topic import Topic

STEPS = 14
_APPEND = f"Append them to a topic of {ingest.PARTITIONS} partitions, sync"


class Compacted(NamedTuple):
    """before, after: what the topic held; lines: how the latest states differ after it, none if they are equal."""

    before: Holdings
    after: Holdings
    lines: list[str]


class Tabled(NamedTuple):
    """table: what was made; answers: of each engine; lines: how they differ, none if all are equal."""

    table: TableReport
    answers: list[Answer]
    lines: list[str]


class Results(NamedTuple):
    """What Spark wrote, read back. places: tail number -> (partition, offset) of its latest record; streamed: the
    micro-batches.
    """

    states: dict[str, AircraftState]
    places: dict[str, tuple[int, int]]
    delays: dict[tuple[str, int], DelayStatistics]
    streamed: Streamed


def tell(directory: Path, *, limit: int | None = None) -> int:
    """Run the demo as `seglog.demo.run` promises."""
    directory = Path(directory)
    source = flights.data_directory()
    archive = source / "flights.csv.zip"
    output.prepare(directory)
    steps = Steps(STEPS)
    with steps.step("Read the flights, put them in order of departure"):
        rows = flights.read_rows(archive).slice(0, limit)
        events = flights.to_events(rows)
        steps.say(f"{events.num_rows:,} events")
    with steps.step("Compile the kernels, unless an earlier run has"):
        ingest.compile_kernels(events)
    with ingest.create(directory / output.TOPIC) as topic:
        _append(steps, events, topic)
        with steps.step("Verify every checksum in the topic"):
            ingest.verify(topic)
        with ExitStack() as resources:
            with steps.step("Start Spark"):
                spark = resources.enter_context(borrowed_session("seglog demo"))
            results = _ask_spark(steps, spark, topic, directory)
            differences = _check(steps, archive, limit, results)
            if differences:
                return _fail("The results DIFFER from the CSV", differences)
            tabled = _tabulate(steps, spark, topic, results, directory / output.WAREHOUSE)
            if tabled.lines:
                return _fail("The answers from the table DIFFER", tabled.lines)
            compacted = _compact(steps, spark, topic, results, directory / output.AIRCRAFT_COMPACTED)
            if compacted.lines:
                return _fail("Compaction has CHANGED the latest state", compacted.lines)
        _report(steps, compacted, tabled, results, flights.carrier_names(source), directory / output.REPORT)
    steps.say(f"Report: {(directory / output.REPORT).resolve()}")
    return 0


def _fail(what: str, lines: list[str]) -> int:
    sys.stderr.write(f"{what}:\n")
    sys.stderr.writelines(f"  {line}\n" for line in lines)
    return 1


def _append(steps: Steps, events: pa.Table, topic: Topic) -> None:
    with steps.step(_APPEND), steps.bar(events.num_rows, "records") as bar:
        ingest.append(events, topic, bar.update)
    logs = [topic.partition(number) for number in range(topic.partitions)]
    steps.say(f"{size(sum(log.size for log in logs))} in {sum(len(log.segments) for log in logs)} segments")


def _ask_spark(steps: Steps, spark: SparkSession, topic: Topic, directory: Path) -> Results:
    aircraft, delays = directory / output.AIRCRAFT, directory / output.DELAYS
    with steps.step("Spark: stream the topic into a table, restarting once in the middle"):
        streamed = stream.into_table(spark, topic, directory / output.TABLE, directory / output.CHECKPOINT)
        steps.say(f"{streamed.first} micro-batches, stopped on purpose; {streamed.second} after the restart")
    events = queries.read_table(spark, directory / output.TABLE)
    with steps.step("Spark: the latest state of every aircraft"):
        queries.write_parquet(queries.latest_states(events), aircraft, ["aircraft"])
    with steps.step("Spark: delays by carrier and hour"):
        queries.write_parquet(queries.delay_statistics(events), delays, ["carrier", "hour"])
    return Results(queries.read_states(aircraft), queries.read_places(aircraft), queries.read_delays(delays), streamed)


def _check(steps: Steps, archive: Path, limit: int | None, results: Results) -> list[str]:
    """Return how the results differ from a computation that never saw the log; empty if they are equal."""
    with steps.step("Check both results, row by row, against the CSV"):
        expected = compute(archive, limit=limit)
        checks = (
            compare("aircraft", expected.aircraft, results.states),
            compare("delays", expected.delays, results.delays),
        )
        for check in checks:
            steps.say(f"{check.rows:,} rows expected, {check.differing:,} differ")
    return [line for check in checks for line in check.lines]


def _tabulate(steps: Steps, spark: SparkSession, topic: Topic, results: Results, warehouse: Path) -> Tabled:
    """Make an Iceberg table of the topic, ask every engine for the delays, and compare their answers."""
    with steps.step("Make an Iceberg table of the topic, with typed columns"):
        table = tables.make(topic, warehouse)
        steps.say(f"{table.records:,} rows, {size(table.bytes)} in {table.files} files, {table.unfit} unfit")
    lines: list[str] = []
    with steps.step("Ask the table for the delays, with Spark, DuckDB and Polars"):
        answers = list(tables.answers(spark, warehouse, topic.name))
        for engine, seconds, delays in answers:
            check = compare(engine, results.delays, delays)
            steps.say(f"{engine}: {seconds:.3f} s, {check.rows:,} rows, {check.differing:,} differ")
            lines += check.lines
    return Tabled(table, answers, lines)


def _compact(steps: Steps, spark: SparkSession, topic: Topic, results: Results, path: Path) -> Compacted:
    """Compact the topic, query the latest states again, and compare them and their positions with those before."""
    before = compaction.holdings(topic)
    with steps.step("Compact the topic: keep the latest record of every aircraft"):
        with steps.bar(100 * topic.partitions, "%") as bar:
            compaction.compact(topic, bar.update)
        after = compaction.holdings(topic)
        steps.say(f"{before.records:,} records, {size(before.bytes)} -> {after.records:,} records, {size(after.bytes)}")
        steps.say(f"{1 - after.bytes / before.bytes:.1%} smaller")
    with steps.step("Spark: the latest state of every aircraft, from the compacted topic"):
        queries.write_parquet(queries.latest_states(queries.read_topic(spark, topic.path)), path, ["aircraft"])
        checks = (
            compare("aircraft", results.states, queries.read_states(path)),
            compare("place", results.places, queries.read_places(path)),
        )
        steps.say(f"{checks[0].rows:,} aircraft before, {checks[0].differing:,} differ after")
    return Compacted(before, after, [line for check in checks for line in check.lines])


def _report(
    steps: Steps, compacted: Compacted, tabled: Tabled, results: Results, carriers: dict[str, str], path: Path
) -> None:
    with steps.step("Write the report"):
        run = Run(
            states=results.states,
            places=results.places,
            delays=results.delays,
            streamed=results.streamed,
            table=tabled.table,
            engines={answer.engine: answer.seconds for answer in tabled.answers},
            carriers=carriers,
            before=compacted.before,
            after=compacted.after,
            seconds=steps.seconds,
            ingest_seconds=steps.seconds[_APPEND],
            cores=len(os.sched_getaffinity(0)),
            version=seglog.__version__,
        )
        path.write_text(render(run), encoding="utf-8")
