"""`python -m seglog.spark.audit`: the audit job as a program."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seglog.errors import InvalidArgument
from seglog.spark.audit import IDENTITY_HEADER, AuditReport, LogAudit, audit, read_checkpoint
from seglog.spark.audit.delivered import Delivered
from seglog.spark.jobs import command
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.parser import Parser
from seglog.terminal.units import format_count, format_size
from seglog.topic.delivered import delivered_from_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def build_parser() -> Parser:
    """Return the program's parser."""
    parser = command.job_parser(
        "seglog.spark.audit",
        __file__,
        summary="Check every byte: is every record there, once, in order, intact, and delivered? Changes nothing.",
        story=(
            "Ends with exit code 1 if records are lost, duplicated or damaged, or a key's latest record was not\n"
            "delivered. "
            "Timestamps that go backwards are counted, but are no problem."
        ),
        examples=[
            "orders",
            "orders --checkpoint checkpoints/orders --json",
            """orders --delivered '{"orders": {"0": 1000}}'""",
            """orders --delivered '{"billing": {"orders": {"0": 1000}}, "search": {"orders": {"0": 900}}}'""",
        ],
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--delivered",
        metavar="OFFSETS",
        help='what a consumer has committed, exclusive: JSON such as {"topic": {"0": 23}}, or for several groups '
        '{"group": {"topic": {"0": 23}}}; what is not named counts as not delivered',
    )
    group.add_argument("--checkpoint", metavar="DIR", help="the same, from the checkpoint of a streaming query")
    parser.add_argument(
        "--identity",
        metavar="HEADER",
        default=IDENTITY_HEADER,
        help="the header that identifies an append: two records with the same value are duplicates; `content` compares "
        f"time, key, value and headers; an empty text looks for none; default: {IDENTITY_HEADER}",
    )
    parser.add_argument(
        "--limit", metavar="N", type=int, default=20, help="findings to show of each kind; default: 20; all are counted"
    )
    return parser


def _run(spark: SparkSession, args: argparse.Namespace) -> int:
    delivered: Delivered = None
    if args.checkpoint is not None:
        delivered = read_checkpoint(args.checkpoint)
    elif args.delivered is not None:
        delivered = delivered_from_json(args.delivered, "--delivered")
    if args.limit < 0:
        raise InvalidArgument(f"--limit is {args.limit}; it must be 0 or more")
    with audit(spark, args.path, delivered=delivered, identity=args.identity or None) as found:
        shown = {
            "findings": _first(found.findings, args.limit),
            "undelivered": _first(found.undelivered, args.limit),
            "duplicates": _first(found.duplicates, args.limit),
        }
        if args.json:
            output.say_json({"ok": found.report.ok, **output.plain(found.report), **shown})
        else:
            _say(found.report, shown)
        return Exit.OK if found.report.ok else Exit.FAILED


def _first(frame: DataFrame, limit: int) -> list[dict[str, object]]:
    rows = frame.limit(limit).collect()
    return [{name: command.readable(value) for name, value in row.asDict().items()} for row in rows]


def _say(report: AuditReport, shown: dict[str, list[dict[str, object]]]) -> None:
    output.say(*(_line(log) for log in report.logs))
    for what, rows in shown.items():
        output.say(*(f"{what}: " + ", ".join(f"{name} {value}" for name, value in row.items()) for row in rows))
    if report.duplicates:
        output.say(f"{format_count(report.duplicates, 'record')} twice, by identity")
    output.say("ok" if report.ok else "not ok")


def _line(log: LogAudit) -> str:
    """Return the figures of a log as one line; problems only if there are any."""
    line = (
        f"{log.topic}/{log.partition}: {format_count(log.records, 'record')}, {format_size(log.bytes)}, "
        f"{format_count(log.segments, 'segment')}, {format_count(log.tombstones, 'tombstone')}, "
        f"{log.live_keys:,} of {format_count(log.keys, 'key')} live"
    )
    faults = {
        "lost": log.lost,
        "duplicated": log.duplicated,
        "corrupt": log.corrupt,
        "problems": log.problems,
        "back in time": log.backwards,
        "back in time by key": log.backwards_by_key,
    }
    for group in log.groups:
        faults[f"records undelivered to {group.group}"] = group.undelivered_records
        faults[f"keys undelivered to {group.group}"] = group.undelivered_keys
    return line + "".join(f"; {count:,} {fault}" for fault, count in faults.items() if count)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return command.main(build_parser(), _run, argv)


if __name__ == "__main__":
    sys.exit(main())
