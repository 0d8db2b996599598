"""`truncate` and `expire`: delete records from a log. `truncate` asks first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from seglog.cli.frame import Args, Command, argument, flag
from seglog.cli.opened import opened
from seglog.cli.options import LOG, YES
from seglog.cli.waiting import WAIT, patiently
from seglog.clock import system_clock
from seglog.errors import OffsetOutOfRange
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, format_size, parse_offset

if TYPE_CHECKING:
    from seglog.log.info import SegmentInfo
    from seglog.log.log import Log


def _truncate(args: Args) -> int:
    with opened(args.log, mode="r") as log:  # mode "a" would create a missing log
        lowest, end = log.lowest_offset, log.next_offset
    if not lowest <= args.offset <= end:
        raise OffsetOutOfRange(args.offset, lowest, end + 1)
    question = f"Delete offsets {args.offset} to {end - 1} of {args.log} permanently?"
    if args.offset < end and not output.confirmed(question, yes=args.yes):
        output.note("nothing was changed")
        return Exit.FAILED
    with patiently(lambda: opened(args.log, mode="a"), args.wait) as log:
        dropped = max(0, log.next_offset - args.offset)
        if dropped:
            log.truncate(args.offset)
    if args.json:
        output.say_json({"next_offset": args.offset, "dropped": dropped})
    else:
        output.say(f"deleted {format_count(dropped, 'offset')}; the next offset is {args.offset}")
    return Exit.OK


def _expire(args: Args) -> int:
    with opened(args.log, mode="r") as log:  # mode "a" would create a missing log
        if args.dry_run:
            going = _expirable(log)
            return _expired(args, len(going), sum(segment.bytes for segment in going))
    with patiently(lambda: opened(args.log, mode="a"), args.wait) as log:
        before = log.size
        dropped = log.expire()
        return _expired(args, dropped, max(before - log.size, 0))  # a roll adds a segment header


def _expirable(log: Log) -> tuple[SegmentInfo, ...]:
    from seglog.log.retention import select_expired

    sealed = [segment for segment in log.segments if segment.sealed_at is not None]
    active_bytes = sum(segment.bytes for segment in log.segments) - sum(segment.bytes for segment in sealed)
    entries = cast(Any, sealed)  # select_expired reads only sealed_at and bytes, which both types have
    return tuple(sealed[: select_expired(entries, active_bytes, log.config.retention, system_clock())])


def _expired(args: Args, segments: int, size: int) -> int:
    if args.json:
        output.say_json({"segments": segments, "bytes": size, "dry_run": args.dry_run})
    else:
        verb = "would delete" if args.dry_run else "deleted"
        output.say(f"{verb} {format_count(segments, 'segment')}, {format_size(size)}")
    return Exit.OK


COMMANDS = (
    Command(
        "truncate",
        _truncate,
        [LOG, argument("offset", type=parse_offset, help="the first offset to delete"), YES, WAIT],
        story="The next append gets this offset. The records cannot be restored; readers past it get an error.",
        examples=["seglog truncate orders 1000", "seglog truncate orders 1000 --yes"],
    ),
    Command(
        "expire",
        _expire,
        [LOG, flag("--dry-run", help="show what would be deleted, change nothing"), WAIT],
        story="Deletes what --retention-bytes and --retention-age (see `seglog append`) no longer keep.",
        examples=["seglog expire orders --dry-run", "seglog expire orders"],
    ),
)
