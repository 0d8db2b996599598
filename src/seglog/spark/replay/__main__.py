"""`python -m seglog.spark.replay`: the replay job as a program."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seglog.machines.machine import named_machine
from seglog.spark.jobs import command
from seglog.spark.replay import replay
from seglog.terminal.exits import Exit
from seglog.terminal.parser import Parser

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build_parser() -> Parser:
    """Return the program's parser."""
    parser = command.job_parser(
        "seglog.spark.replay",
        __file__,
        summary="Apply the records of every key, in offset order, to your state machine.",
        story=(
            "A machine has initial() -> state, apply(state, record) -> state and encode(state) -> bytes. Records\n"
            "without a key share one machine in each partition. If executors do not have its module,\n"
            "spark-submit --py-files sends it to them."
        ),
        examples=[
            "lesson --machine seglog.spark.replay.classroom:Classroom",
            "game --machine rules:Game --stop 1000 --output states",
        ],
    )
    parser.add_argument("--machine", metavar="MODULE:NAME", required=True, help="the machine: an object, or its class")
    command.add_moment(parser, "stop", "the states before this")
    parser.add_argument(
        "--per", choices=("key", "partition"), default="key", help="one machine per key (default) or per partition"
    )
    parser.add_argument("--headers", action="store_true", help="pass the headers of each record to the machine")
    parser.add_argument(
        "--snapshots", metavar="DIRECTORY", help="continue from the newest snapshots there, and store new ones"
    )
    command.add_plan(parser)
    command.add_incomplete(parser)
    command.add_table_output(parser)
    return parser


def _run(spark: SparkSession, args: argparse.Namespace) -> int:
    states = replay(
        spark,
        args.path,
        named_machine(args.machine),
        stop=command.moment(args, "stop"),
        per=args.per,
        plan=args.plan,
        include_headers=args.headers,
        snapshots=args.snapshots,
        incomplete=args.incomplete,
    )
    command.put(states, args, {"machine": args.machine})
    return Exit.OK


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return command.main(build_parser(), _run, argv)


if __name__ == "__main__":
    sys.exit(main())
