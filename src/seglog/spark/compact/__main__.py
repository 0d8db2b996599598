"""`python -m seglog.spark.compact`: the compact job as a program."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seglog.spark.compact import CompactedLog, compact
from seglog.spark.jobs import command
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.parser import Parser
from seglog.terminal.units import format_count, format_size, parse_size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build_parser() -> Parser:
    """Return the program's parser."""
    parser = command.job_parser(
        "seglog.spark.compact",
        __file__,
        summary="Keep the latest record of every key in the sealed segments; offsets stay the same.",
        story=(
            "One task per log; others may append meanwhile. Ends with exit code 1 if a damaged record prevented the\n"
            "compaction of a segment, which is left unchanged."
        ),
        examples=["orders", "orders --bytes-per-second 50MiB --json"],
    )
    parser.add_argument(
        "--bytes-per-second",
        metavar="SIZE",
        type=parse_size,
        help="read and write at most this many bytes per second in each task: 512, 64MiB, 1GB; default: no limit",
    )
    return parser


def _run(spark: SparkSession, args: argparse.Namespace) -> int:
    done = compact(spark, args.path, bytes_per_second=args.bytes_per_second)
    if args.json:
        output.say_json([output.plain(log) for log in done])
    else:
        output.say(*(_line(log) for log in done))
    return Exit.FAILED if any(log.report.damaged for log in done) else Exit.OK


def _line(log: CompactedLog) -> str:
    report = log.report
    size = f"{format_size(report.bytes_before)} -> {format_size(report.bytes_after)}"
    line = (
        f"{log.topic}/{log.partition}: {report.records_before:,} -> {format_count(report.records_after, 'record')}, "
        f"{size}, {report.segments_before} -> {format_count(report.segments_after, 'segment')}"
    )
    return line + "".join(f"; skipped, damaged: {error}" for error in report.damaged)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return command.main(build_parser(), _run, argv)


if __name__ == "__main__":
    sys.exit(main())
