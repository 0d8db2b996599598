"""`python -m seglog.spark.ingest`: the ingest job as a program."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from seglog.errors import InvalidArgument
from seglog.spark.ingest import EVERYTHING, FORMATS, created_topic, ingest, read_source
from seglog.spark.ingest.malformed import MALFORMED, REASON
from seglog.spark.ingest.source import PARSED
from seglog.spark.jobs import command
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.parser import Parser
from seglog.terminal.units import format_count, parse_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build_parser() -> Parser:
    """Return the program's parser."""
    parser = command.job_parser(
        "seglog.spark.ingest",
        __file__,
        summary="Append files or a table to a topic; a run is stored atomically and once.",
        story='EXPR is an SQL expression over the columns of the rows, such as "cast(id AS string)".',
        examples=[
            "orders orders.csv --key id --run 2024-05-01",
            "orders day/*.parquet --format parquet --key id --timestamp created --order-by created --partitions 4",
            'orders orders.csv --schema "id BIGINT, price DECIMAL(10, 2)" --reject orders.rejected',
            "events sales.events --format table --run nightly --batch 20240501",
        ],
    )
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help="files, directories, or the name of a table")
    parser.add_argument("--format", choices=FORMATS, default="csv", help="of the sources; default: csv")
    parser.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of Spark's reader, such as sep=;; for csv header=true is the default",
    )
    parser.add_argument(
        "--schema",
        metavar="COLUMNS",
        help='of csv or json, such as "id BIGINT, name STRING"; a malformed row ends the run then, unless --reject or '
        "--option mode=PERMISSIVE is given; default: inferred",
    )
    parser.add_argument(
        "--reject",
        metavar="DIR",
        help="write malformed rows of csv or json here, with the reason, and store the others; default: store what "
        "could be read of them, with columns _corrupt_record and _corrupt_reason",
    )
    parser.add_argument("--value", metavar="EXPR", default=EVERYTHING, help="default: the row as JSON")
    parser.add_argument("--key", metavar="EXPR", help="text or binary; default: no key")
    parser.add_argument("--timestamp", metavar="EXPR", help="default: the time of writing")
    parser.add_argument("--headers", metavar="EXPR", help="a map, such as map('source', 'csv'); default: none")
    parser.add_argument("--order-by", metavar="EXPR", help="sort all rows first; default: unsorted")
    parser.add_argument("--topic", metavar="NAME", help="the topic, if PATH is a broker's directory")
    parser.add_argument("--partitions", metavar="N", type=parse_count, help="create topic PATH if there is none")
    parser.add_argument("--run", metavar="NAME", help="the name of this run: a repeated run is not stored again")
    parser.add_argument(
        "--batch", metavar="N", type=parse_count, default=0, help="the number of this run, for a regular job"
    )
    return parser


def _run(spark: SparkSession, args: argparse.Namespace) -> int:
    options = _options(args.option)
    if args.reject is not None and args.format in PARSED:
        options = {"mode": "PERMISSIVE", **options}
    rows = read_source(spark, args.sources, args.format, options, args.schema)
    with nullcontext() if args.partitions is None else created_topic(args.path, args.partitions):
        report = ingest(
            spark,
            rows,
            args.path,
            run=args.run,
            batch=args.batch,
            value=args.value,
            key=args.key,
            timestamp=args.timestamp,
            headers=args.headers,
            order_by=args.order_by,
            topic=args.topic,
            reject=args.reject,
        )
    if args.json:
        output.say_json(dataclasses.asdict(report))
    elif report.stored:
        output.say(f"{format_count(report.records, 'record')} -> {report.topic}")
        if report.rejected:
            output.say(f"{format_count(report.rejected, 'malformed row')} -> {args.reject}")
    else:
        output.say(f"run {report.run}, batch {report.batch}, is already in {report.topic}; nothing was stored")
    if report.malformed:
        output.note(
            f"{format_count(report.malformed, 'record')} of malformed rows, in which null is what could not be read; "
            f"their columns {MALFORMED} and {REASON} have the text and why; --reject DIR leaves such rows out"
        )
    return Exit.OK


def _options(words: Sequence[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise InvalidArgument(f"--option {name} has no value; write NAME=VALUE")
    return {name: value for name, _, value in pairs}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return command.main(build_parser(), _run, argv)


if __name__ == "__main__":
    sys.exit(main())
