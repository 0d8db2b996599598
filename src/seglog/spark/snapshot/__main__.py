"""`python -m seglog.spark.snapshot`: the snapshot job as a program."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seglog.spark.jobs import command
from seglog.spark.snapshot import bootstrap
from seglog.terminal.exits import Exit
from seglog.terminal.parser import Parser

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build_parser() -> Parser:
    """Return the program's parser."""
    parser = command.job_parser(
        "seglog.spark.snapshot",
        __file__,
        summary="The latest value of every key, as of now or as of any offset or time.",
        story="The report contains startingOffsets, with which a stream continues exactly after it.",
        examples=["orders", "orders --output state", "orders --as-of-time 2024-05-01T12:00Z --output state --json"],
    )
    command.add_moment(parser, "as-of", "the state before this")
    parser.add_argument("--tombstones", action="store_true", help="keep keys whose latest record is a tombstone")
    parser.add_argument("--headers", action="store_true", help="add the headers of each record")
    command.add_plan(parser)
    command.add_incomplete(parser)
    command.add_table_output(parser)
    return parser


def _run(spark: SparkSession, args: argparse.Namespace) -> int:
    found = bootstrap(
        spark,
        args.path,
        as_of=command.moment(args, "as-of"),
        tombstones=args.tombstones,
        include_headers=args.headers,
        plan=args.plan,
        incomplete=args.incomplete,
    )
    command.put(found.state, args, {"startingOffsets": found.starting_offsets})
    return Exit.OK


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return command.main(build_parser(), _run, argv)


if __name__ == "__main__":
    sys.exit(main())
