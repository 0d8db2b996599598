"""`python -m seglog.spark.export`: the export job as a program."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seglog.spark.export import MODES, export
from seglog.spark.jobs import command
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.parser import Parser
from seglog.terminal.units import format_size
from seglog.topic.positions import to_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build_parser() -> Parser:
    """Return the program's parser."""
    parser = command.job_parser(
        "seglog.spark.export",
        __file__,
        summary="Write records to Parquet: topic, partition, offset, timestamp, key, value, headers.",
        story=(
            "The range is fixed when the export starts; the report shows where the next one continues. A repeated\n"
            "export stores nothing twice."
        ),
        examples=[
            "orders lake/orders",
            "orders lake/orders --by-date --mode overwrite",
            """orders lake/orders --start '{"orders": {"0": 1000}}' --mode append""",
        ],
    )
    parser.add_argument("destination", metavar="DIR", help="the directory to write")
    command.add_moment(parser, "start", "the first record")
    command.add_moment(parser, "stop", "the record to end before")
    parser.add_argument(
        "--mode",
        choices=MODES,
        default="error",
        help="if DIR exists: refuse (default), replace it, do nothing, or add what it does not hold",
    )
    parser.add_argument("--by-date", action="store_true", help="one directory per day of the timestamp (UTC)")
    parser.add_argument("--compression", default="zstd", help="of the Parquet files; default: zstd")
    return parser


def _run(spark: SparkSession, args: argparse.Namespace) -> int:
    report = export(
        spark,
        args.path,
        args.destination,
        start=command.moment(args, "start"),
        stop=command.moment(args, "stop"),
        mode=args.mode,
        by_date=args.by_date,
        compression=args.compression,
    )
    if args.json:
        output.say_json(dataclasses.asdict(report))
    elif not report.written:
        output.say(f"{args.destination} exists; nothing was written")
    else:
        output.say(
            f"{report.records:,} records, {format_size(report.data_bytes)} of keys and values -> {args.destination}"
        )
        output.say(f"the next export starts at: --start '{to_json(report.next_offsets)}'")
    return Exit.OK


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return command.main(build_parser(), _run, argv)


if __name__ == "__main__":
    sys.exit(main())
