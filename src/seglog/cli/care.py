"""`verify`, `repair`, `truncate`, `expire`: care of a log. What takes something away says so, and asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import seglog
from seglog.cli.opened import opened
from seglog.cli.options import Commands, add_command, add_log, add_quiet, add_yes
from seglog.cli.progress import progress
from seglog.clock import system_clock
from seglog.errors import OffsetOutOfRange
from seglog.log.retention import select_expired
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, format_size, parse_offset

if TYPE_CHECKING:
    import argparse

    from seglog.log.check import Problem
    from seglog.log.info import SegmentInfo
    from seglog.log.log import Log
    from seglog.log.repair import RepairReport


def add_parsers(commands: Commands) -> None:
    """Declare the four."""
    verify = add_command(
        commands,
        "verify",
        _verify,
        summary="check every byte of a log, change nothing",
        story="Lists all damage and ends with exit code 1 if there is any. Works where opening refuses, too.",
        examples=["seglog verify orders", "seglog verify orders --json | jq .problems"],
    )
    add_log(verify)
    add_quiet(verify)
    _add_repair(commands)
    _add_truncate(commands)
    _add_expire(commands)


def _add_repair(commands: Commands) -> None:
    parser = add_command(
        commands,
        "repair",
        _repair,
        summary="set damage aside, so that the rest of a log can be used",
        story=(
            "Shows what it will do and asks. Nothing is deleted: what is taken out of the log goes to its\n"
            "quarantine/ directory. With --dry-run the exit code is 1 if there is something to repair."
        ),
        examples=["seglog repair orders --dry-run", "seglog repair orders", "seglog repair orders --yes"],
    )
    add_log(parser)
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, change nothing")
    add_yes(parser)
    add_quiet(parser)


def _add_truncate(commands: Commands) -> None:
    parser = add_command(
        commands,
        "truncate",
        _truncate,
        summary="drop all records from an offset on",
        story="The next record gets that offset. The records are gone for good; readers behind it are told.",
        examples=["seglog truncate orders 1000", "seglog truncate orders 1000 --yes"],
    )
    add_log(parser)
    parser.add_argument("offset", metavar="OFFSET", type=parse_offset, help="the first offset to drop")
    add_yes(parser)


def _add_expire(commands: Commands) -> None:
    parser = add_command(
        commands,
        "expire",
        _expire,
        summary="drop the oldest segments that retention lets go",
        story="Retention is part of the config: --retention-bytes and --retention-age of `seglog append`.",
        examples=["seglog expire orders --dry-run", "seglog expire orders"],
    )
    add_log(parser)
    parser.add_argument("--dry-run", action="store_true", help="show what would be dropped, change nothing")


def _verify(args: argparse.Namespace) -> int:
    with progress("verify", unit="B", quiet=args.quiet) as report:
        found = seglog.verify(args.log, report)
    if args.json:
        output.say_json(output.plain(found) | {"ok": found.ok})
        return Exit.OK if found.ok else Exit.FAILED
    records, segments = format_count(found.records, "record"), format_count(found.segments, "segment")
    checked = f"{records}, {format_size(found.bytes)}, {segments}"
    if found.tail_bytes:
        checked += f", and {found.tail_bytes} bytes of an append that is under way or was cut off"
    if found.ok:
        if not args.quiet:
            output.say(f"ok: {checked}")
        return Exit.OK
    output.say(*(_problem(problem) for problem in found.problems))
    output.say(
        f"{format_count(len(found.problems), 'problem')} in {checked}; `seglog repair {args.log}` sets damage aside"
    )
    return Exit.FAILED


def _problem(problem: Problem) -> str:
    """Return a problem as one line: what, where, why."""
    where = [str(problem.path)]
    if problem.offset is not None:
        where.append(f"offset {problem.offset}")
    if problem.position is not None:
        where.append(f"position {problem.position}")
    return f"{problem.kind}: {', '.join(where)}: {problem.detail}"


def _repair(args: argparse.Namespace) -> int:
    with progress("check", unit="B", quiet=args.quiet) as report:
        plan = seglog.repair(args.log, dry_run=True, progress=report)
    if args.dry_run or not plan.actions:
        _say_repair(args, plan, "would be done:")
        return Exit.FAILED if plan.actions else Exit.OK
    if not args.json:
        output.say("this will be done:", *_actions(plan))
    if not output.confirmed(f"Repair {args.log}, giving up {_lost(plan)}?", yes=args.yes):
        output.note("nothing was changed")
        return Exit.FAILED
    with progress("repair", unit="B", quiet=args.quiet) as report:
        done = seglog.repair(args.log, progress=report)
    _say_repair(args, done, "done:")
    return Exit.OK


def _actions(report: RepairReport) -> list[str]:
    return [f"  {action.kind}: {action.path}: {action.detail}" for action in report.actions]


def _lost(report: RepairReport) -> str:
    """Return the loss in words that do not promise more than the report, which counts what it knows of."""
    return f"{format_count(report.records_lost, 'record')} known to be damaged"


def _say_repair(args: argparse.Namespace, report: RepairReport, heading: str) -> None:
    if args.json:
        output.say_json(output.plain(report) | {"dry_run": args.dry_run})
    elif not report.actions:
        output.say("nothing to repair")
    else:
        kept = [f"  kept: {name}" for name in report.quarantined]
        output.say(heading, *_actions(report), *kept, f"given up: {_lost(report)}")


def _truncate(args: argparse.Namespace) -> int:
    with opened(args.log, mode="r") as log:  # never creates a log, which "a" would
        lowest, end = log.lowest_offset, log.next_offset
    if not lowest <= args.offset <= end:
        raise OffsetOutOfRange(args.offset, lowest, end + 1)
    question = f"Drop offsets {args.offset} to {end - 1} of {args.log} for good?"
    if args.offset < end and not output.confirmed(question, yes=args.yes):
        output.note("nothing was changed")
        return Exit.FAILED
    with opened(args.log, mode="a") as log:
        dropped = max(0, log.next_offset - args.offset)
        if dropped:
            log.truncate(args.offset)
    if args.json:
        output.say_json({"next_offset": args.offset, "dropped": dropped})
    else:
        output.say(f"dropped {format_count(dropped, 'offset')}; the next offset is {args.offset}")
    return Exit.OK


def _expire(args: argparse.Namespace) -> int:
    with opened(args.log, mode="r") as log:  # never creates a log, which "a" would
        if args.dry_run:
            going = _expirable(log)
            return _expired(args, len(going), sum(segment.bytes for segment in going))
    with opened(args.log, mode="a") as log:
        before = log.size
        dropped = log.expire()
        return _expired(args, dropped, max(before - log.size, 0))  # a roll adds the head of a segment


def _expirable(log: Log) -> tuple[SegmentInfo, ...]:
    sealed = [segment for segment in log.segments if segment.sealed_at is not None]
    active_bytes = sum(segment.bytes for segment in log.segments) - sum(segment.bytes for segment in sealed)
    entries = cast(Any, sealed)  # the decision looks at sealed_at and bytes, which both kinds of entry have
    return tuple(sealed[: select_expired(entries, active_bytes, log.config.retention, system_clock())])


def _expired(args: argparse.Namespace, segments: int, size: int) -> int:
    if args.json:
        output.say_json({"segments": segments, "bytes": size, "dry_run": args.dry_run})
    else:
        verb = "would drop" if args.dry_run else "dropped"
        output.say(f"{verb} {format_count(segments, 'segment')}, {format_size(size)}")
    return Exit.OK
