"""`python -m seglog.spark.load`: the load job as a program."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seglog.spark.jobs import command
from seglog.spark.load import load
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.parser import Parser
from seglog.terminal.units import format_count, format_size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build_parser() -> Parser:
    """Return the program's parser."""
    parser = command.job_parser(
        "seglog.spark.load",
        __file__,
        summary="Load a topic into its Iceberg table; `seglog table sync` continues from there.",
        story=(
            "Executors write the files, and the driver commits them as one snapshot with the offsets up to which the\n"
            "table then holds each partition. Repeated, it adds what is new. A load that is killed changes nothing."
        ),
        examples=["shop/orders warehouse", "shop/orders warehouse --all --hold --json"],
    )
    parser.add_argument("warehouse", metavar="WAREHOUSE", help="the directory of the tables")
    parser.add_argument("--name", metavar="NAME", help="of the table; default: that of the topic")
    parser.add_argument("--all", action="store_true", help="also take the active segments, as far as they are synced")
    parser.add_argument("--hold", action="store_true", help="let the retention of the topic wait for the table")
    return parser


def _run(spark: SparkSession, args: argparse.Namespace) -> int:
    reports = load(spark, args.path, args.warehouse, name=args.name, active=args.all, hold=args.hold)
    if args.json:
        output.say_json([output.plain(report) for report in reports])
    else:
        output.say(
            *(
                f"{one.table}: {format_count(one.records, 'record')} in {format_count(one.files, 'file')}, "
                f"{format_size(one.bytes)}"
                for one in reports
            )
        )
    return Exit.OK


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return command.main(build_parser(), _run, argv)


if __name__ == "__main__":
    sys.exit(main())
