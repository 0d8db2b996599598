"""`truncate`, `delete-before` and `expire`: delete records from a log. The first two ask first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seglog.cli.frame import Args, Command, argument, flag
from seglog.cli.location import SERVER, Local, Remote, client_for, locate
from seglog.cli.lock_wait import WAIT, patiently
from seglog.cli.open_log import opened
from seglog.cli.options import PLACE, YES
from seglog.cli.partitions import is_whole_topic, logs_to_change, logs_to_read, one_partition
from seglog.clock import system_clock
from seglog.errors import InvalidArgument, OffsetOutOfRange
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, format_size, parse_offset

if TYPE_CHECKING:
    from seglog.client.models import Bounds
    from seglog.client.topic import RemoteTopic
    from seglog.format.segment_entry import SegmentEntry
    from seglog.log.log import Log


# --- truncate -------------------------------------------------------------------------------------------------------


def _truncate(args: Args) -> int:
    place = locate(args)
    one_partition(place, "offsets count")
    if isinstance(place, Remote):
        return _truncate_remote(args, place)
    with opened(args.log, mode="r") as log:  # mode "a" would create a missing log
        lowest, end = log.lowest_offset, log.next_offset
    if not _may_truncate(args, lowest, end):
        return Exit.FAILED
    with patiently(lambda: opened(args.log, mode="a"), args.wait) as log:
        dropped = max(0, log.next_offset - args.offset)
        if dropped:
            log.truncate(args.offset)
    return _truncated(args, dropped)


def _truncate_remote(args: Args, place: Remote) -> int:
    with client_for(args, place) as client:
        topic, number = client.topic(place.topic), place.partition or 0
        bounds = _bounds(topic, number)
        if not _may_truncate(args, bounds.lowest_offset, bounds.next_offset):
            return Exit.FAILED
        dropped = max(0, topic.bounds()[number].next_offset - args.offset)
        if dropped:
            topic.truncate(number, args.offset)
        return _truncated(args, dropped)


def _bounds(topic: RemoteTopic, number: int) -> Bounds:
    """Return the bounds of a partition. InvalidArgument if there is none."""
    bounds = topic.bounds()
    if number not in bounds:
        raise InvalidArgument(f"topic {topic.name!r} has partitions 0 to {len(bounds) - 1}, not {number}")
    return bounds[number]


def _may_truncate(args: Args, lowest: int, end: int) -> bool:
    """Ask before records are dropped. OffsetOutOfRange."""
    if not lowest <= args.offset <= end:
        raise OffsetOutOfRange(args.offset, lowest, end + 1)
    return _may_lose(args, args.offset, end)


def _may_lose(args: Args, start: int, stop: int) -> bool:
    """Ask before the records from start up to stop are deleted."""
    question = f"Delete offsets {start} to {stop - 1} of {args.log} permanently?"
    if start < stop and not output.confirmed(question, yes=args.yes):
        output.note("nothing was changed")
        return False
    return True


def _truncated(args: Args, dropped: int) -> int:
    if args.json:
        output.say_json({"next_offset": args.offset, "dropped": dropped})
    else:
        output.say(f"deleted {format_count(dropped, 'offset')}; the next offset is {args.offset}")
    return Exit.OK


# --- delete-before --------------------------------------------------------------------------------------------------


def _delete_before(args: Args) -> int:
    place = locate(args)
    one_partition(place, "offsets count")
    if isinstance(place, Remote):
        return _delete_before_remote(args, place)
    with opened(args.log, mode="r") as log:
        lowest, end = log.lowest_offset, log.next_offset
    if not _may_delete(args, lowest, end):
        return Exit.FAILED
    with patiently(lambda: opened(args.log, mode="a"), args.wait) as log:
        return _deleted(args, log.lowest_offset, log.delete_before(args.offset))


def _delete_before_remote(args: Args, place: Remote) -> int:
    with client_for(args, place) as client:
        topic, number = client.topic(place.topic), place.partition or 0
        bounds = _bounds(topic, number)
        if not _may_delete(args, bounds.lowest_offset, bounds.next_offset):
            return Exit.FAILED
        return _deleted(args, bounds.lowest_offset, topic.delete_before(number, args.offset))


def _may_delete(args: Args, lowest: int, end: int) -> bool:
    """Ask before records are deleted. OffsetOutOfRange."""
    if not 0 <= args.offset <= end:
        raise OffsetOutOfRange(args.offset, lowest, end + 1)
    return _may_lose(args, lowest, args.offset)


def _deleted(args: Args, before: int, lowest: int) -> int:
    if args.json:
        output.say_json({"lowest_offset": lowest, "dropped": lowest - before})
    else:
        output.say(f"deleted {format_count(lowest - before, 'offset')}; the lowest offset is {lowest}")
    return Exit.OK


# --- expire ---------------------------------------------------------------------------------------------------------


def _expire(args: Args) -> int:
    place = locate(args)
    if isinstance(place, Remote):
        if args.dry_run:
            raise InvalidArgument("--dry-run works on files: run it on the server's machine, on the server's directory")
        with client_for(args, place) as client:
            found = client.topic(place.topic).expire(place.partition)
        return _expired(args, {number: (report["segments"], None) for number, report in found.items()}, place)
    with logs_to_read(place) as logs:  # never creates a log, which opening for writing would
        if args.dry_run:
            going = {number: _expirable(log) for number, log in logs.items()}
            sizes = {number: (len(of), sum(segment.disk_bytes for segment in of)) for number, of in going.items()}
            return _expired(args, sizes, place)
    with logs_to_change(args, place) as logs:
        return _expired(args, {number: _expire_one(log) for number, log in logs.items()}, place)


def _expire_one(log: Log) -> tuple[int, int]:
    """Return how many segments were dropped, and their bytes."""
    before = log.size
    dropped = log.expire()
    return dropped, max(before - log.size, 0)  # a roll adds the head of a segment


def _expirable(log: Log) -> tuple[SegmentEntry, ...]:
    """Return the sealed segments that `expire` would drop."""
    from seglog.log.retention import select_expired

    view = log._own_view()
    entries = view.manifest.segments[:-1]
    going = select_expired(entries, view.active.size, view.manifest.config.retention, system_clock())
    return tuple(entries[:going])


def _expired(args: Args, dropped: Mapping[int, tuple[int, int | None]], place: Local | Remote) -> int:
    """Show by partition how many segments were dropped, and their bytes where these are known."""
    whole = is_whole_topic(place)
    if args.json:
        shown = {
            number: {"segments": count} | ({} if size is None else {"bytes": size})
            for number, (count, size) in dropped.items()
        }
        told: dict[str, Any] = {"partitions": shown} if whole else next(iter(shown.values()))
        output.say_json(told | {"dry_run": args.dry_run})
        return Exit.OK
    verb = "would delete" if args.dry_run else "deleted"
    for number, (count, size) in dropped.items():
        bytes_too = "" if size is None else f", {format_size(size)}"
        output.say(f"{f'partition {number}: ' if whole else ''}{verb} {format_count(count, 'segment')}{bytes_too}")
    return Exit.OK


COMMANDS = (
    Command(
        "truncate",
        _truncate,
        [PLACE, argument("offset", type=parse_offset, help="the first offset to drop"), YES, WAIT, *SERVER],
        story=(
            "The next record gets that offset. The records cannot be restored; readers after it get an error. Of a\n"
            "topic, name the partition: offsets count within one."
        ),
        examples=[
            "seglog truncate orders 1000",
            "seglog truncate orders 1000 --yes",
            "seglog truncate shop/orders/0 1000",
            "seglog truncate http://127.0.0.1:3000/orders/0 1000",
        ],
    ),
    Command(
        "delete-before",
        _delete_before,
        [PLACE, argument("offset", type=parse_offset, help="the first offset to keep"), YES, WAIT, *SERVER],
        story=(
            "The log begins at that offset then. The space of a segment is free once all its records are deleted. A\n"
            "log with an archive, or that a table reads, deletes only whole segments that these have. The records\n"
            "cannot be restored; consumers that have not read them get an error. Of a topic, name the partition:\n"
            "offsets count within one."
        ),
        examples=[
            "seglog delete-before orders 1000",
            "seglog delete-before shop/orders/0 1000 --yes",
            "seglog delete-before http://127.0.0.1:3000/orders/0 1000",
        ],
    ),
    Command(
        "expire",
        _expire,
        [PLACE, flag("--dry-run", help="show what would be dropped, change nothing; of files only"), WAIT, *SERVER],
        story=(
            "Retention is part of the config: --retention-bytes and --retention-age of `seglog append` and `seglog\n"
            "topics create`. Of a topic: in every partition."
        ),
        examples=[
            "seglog expire orders --dry-run",
            "seglog expire orders",
            "seglog expire shop/orders",
            "seglog expire http://127.0.0.1:3000/orders",
        ],
    ),
)
