"""`truncate` and `expire`, behind `verify` and `repair`: care of a log. What takes something away says so, and asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from seglog.cli import mending
from seglog.cli.opened import opened
from seglog.cli.options import Commands, add_command, add_log, add_yes
from seglog.clock import system_clock
from seglog.errors import OffsetOutOfRange
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, format_size, parse_offset

if TYPE_CHECKING:
    import argparse

    from seglog.log.info import SegmentInfo
    from seglog.log.log import Log


def add_parsers(commands: Commands) -> None:
    """Declare the four."""
    mending.add_parsers(commands)
    _add_truncate(commands)
    _add_expire(commands)


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
    from seglog.log.retention import select_expired

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
