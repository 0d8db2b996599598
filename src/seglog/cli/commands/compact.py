"""`compact`, `explain`, `pin`: logs that keep the latest record of every key. Whatever only reports opens read-only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from seglog.cli.frame import Args, Command, argument, flag, option
from seglog.cli.location import SERVER, Local, Remote, client_for, local, locate
from seglog.cli.lock_wait import WAIT
from seglog.cli.open_log import opened
from seglog.cli.options import LOG, PLACE, QUIET
from seglog.cli.partitions import is_whole_topic, logs_to_change, logs_to_read, one_partition
from seglog.cli.progress import progress
from seglog.clock import system_clock
from seglog.errors import ConfigError, InvalidArgument
from seglog.format.lines import encode_bytes
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, format_size, format_time, parse_offset, parse_size

if TYPE_CHECKING:
    from seglog.compaction.plan import Measured
    from seglog.compaction.schedule import Standing
    from seglog.log.explain.explain import Explanation
    from seglog.log.info import CompactionReport
    from seglog.log.log import Log
    from seglog.log.repair.verify import Progress


# --- compact --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Garbage:
    """What a compaction would find. measured: the segments it may read, in order."""

    measured: tuple[Measured, ...]

    @property
    def dead(self) -> int:
        """The records it would remove."""
        return sum(one.dead for one in self.measured)

    @property
    def records(self) -> int:
        """The records in total."""
        return sum(one.entry.records or 0 for one in self.measured)

    @property
    def bytes(self) -> int:
        """About how many bytes it would free."""
        from seglog.compaction.plan import record_bytes

        return sum(record_bytes(one.entry) - one.live_bytes for one in self.measured)

    def shares(self) -> dict[int, float]:
        """Return base offset -> the share of a segment's records that would be removed."""
        return {one.entry.base_offset: one.dead / max(one.entry.records or 0, 1) for one in self.measured}


def garbage_of(log: Log, *, quiet: bool, generational: bool = False) -> Garbage:
    """Read the keys of a log and return what a compaction would find now. Changes nothing."""
    from seglog.compaction.estimate import measure
    from seglog.compaction.plan import make_plan
    from seglog.compaction.schedule import least_pin, scheduled_plan
    from seglog.storage import LocalStorage

    view, pinned, now = log.view(), least_pin(log.pins), system_clock()  # the view keeps its files from being deleted
    make = scheduled_plan if generational else make_plan
    plan = make(view.manifest, now, durable=log.table_offset, pinned=pinned)
    with progress("measure", unit="B", quiet=quiet) as report:
        return Garbage(measure(plan, LocalStorage(log.path), progress=report))


def _compact(args: Args) -> int:
    place = locate(args)
    if isinstance(place, Remote):
        return _compact_remote(args, place)
    with logs_to_read(place) as logs:  # never creates a log, which opening for writing would
        for number, log in logs.items():
            _check_compacted(args, place, log)
            if args.dry_run:
                _dry_run(args, log, number if is_whole_topic(place) else None)
    if args.dry_run:
        return Exit.OK
    with logs_to_change(args, place) as logs, progress("compact", unit="B", quiet=args.quiet) as report:
        done = {number: _compact_one(args, log, report) for number, log in logs.items()}
    return _say_all_compacted(args, place, done)


def _compact_one(args: Args, log: Log, report: Progress | None) -> tuple[CompactionReport, float]:
    """Compact a log; return what was done, and the seconds."""
    started = time.monotonic()
    done = log.compact(roll=args.roll, generational=args.generational, progress=report, bytes_per_second=args.rate)
    return done, time.monotonic() - started


def _check_compacted(args: Args, place: Local, log: Log) -> None:
    if log.config.retention.compact:
        return
    how = f"seglog append {args.log} --compact --lines < /dev/null"
    if place.topic is not None:
        how = f"seglog topics alter {place.topic.parent} {place.topic.name} --compact"
    raise _not_compacted(args.log, how)


def _not_compacted(log: str, how: str) -> ConfigError:
    return ConfigError(f"{log} is not compacted by key (retention.compact is off); `{how}` changes that")


def _compact_remote(args: Args, place: Remote) -> int:
    """Let the server compact, all that is sealed and what a roll seals."""
    from seglog.log.info import CompactionReport

    for name in ("rate", "generational", "dry_run"):
        if getattr(args, name):
            option_name = name.replace("_", "-")
            raise InvalidArgument(
                f"--{option_name} works on files: run it on the server's machine, on the server's directory"
            )
    started = time.monotonic()
    with client_for(args, place) as client:
        topic = client.topic(place.topic)
        if not topic.info().config.retention.compact:
            raise _not_compacted(topic.name, f"seglog topics alter {place.url} {topic.name} --compact")
        found = topic.compact(place.partition)
    seconds, names = time.monotonic() - started, [one.name for one in fields(CompactionReport)]
    done = {number: CompactionReport(**{name: report[name] for name in names}) for number, report in found.items()}
    return _say_all_compacted(args, place, {number: (one, seconds) for number, one in done.items()})


def _say_all_compacted(args: Args, place: Local | Remote, done: dict[int, tuple[CompactionReport, float]]) -> int:
    for number, (result, seconds) in done.items():
        _say_compacted(args, number if is_whole_topic(place) else None, result, seconds)
    return Exit.FAILED if any(result.damaged for result, _ in done.values()) else Exit.OK


def _say_compacted(args: Args, number: int | None, done: CompactionReport, seconds: float) -> None:
    """Show what was done; number: of the partition, where it is one of several."""
    if args.json:
        named = {} if number is None else {"partition": number}
        output.say_json(named | output.plain(done) | {"seconds": seconds, "dry_run": False})
    elif not args.quiet or done.damaged:
        _say_of(number, _report(done, seconds))


def _say_of(number: int | None, lines: list[str]) -> None:
    """Print lines; of one of several partitions below its number."""
    output.say(*(lines if number is None else [f"partition {number}:", *(f"  {line}" for line in lines)]))


def _dry_run(args: Args, log: Log, number: int | None) -> None:
    standing, garbage = log.standing(), garbage_of(log, quiet=args.quiet, generational=args.generational)
    if args.json:
        named = {} if number is None else {"partition": number}
        told = {"records": garbage.records, "dead": garbage.dead, "bytes": garbage.bytes, "dry_run": True}
        output.say_json(named | told | {"standing": output.plain(standing)})
        return
    segments = sum(1 for one in garbage.measured if one.dead)
    what = f"{format_count(garbage.dead, 'record')} of {garbage.records:,}, about {format_size(garbage.bytes)}"
    where = f"{segments:,} of {format_count(len(garbage.measured), 'segment')}"
    _say_of(number, [f"due: {due_text(standing)}", f"would remove {what}, in {where}"])


def due_text(standing: Standing) -> str:
    """Return whether a compaction is due and why, or when it may become due."""
    dirty = f"{standing.ratio:.0%} of {format_size(standing.total_bytes)} is dirty"
    if standing.due is not None:
        return f"{standing.due}; {dirty}"
    later = "" if standing.next_at is None else f"; look again at {format_time(standing.next_at, precise=False)}"
    return f"no; {dirty}{later}"


def _report(done: CompactionReport, seconds: float) -> list[str]:
    damaged = [f"skipped, damaged: {error}" for error in done.damaged]
    gone = done.superseded + done.tombstones + done.unkeyed
    if not done.rewritten and not gone:
        considered = format_count(done.segments_before, "sealed segment")
        hint = "" if done.segments_before else "; what was appended last waits in the active segment, --roll ends it"
        return [*damaged, f"nothing to remove in {considered}, {format_count(done.records_before, 'record')}{hint}"]
    records = f"removed {format_count(gone, 'record')} of {done.records_before:,}: {done.superseded:,} superseded"
    records += f", {format_count(done.tombstones, 'tombstone')}, {done.unkeyed:,} without a key"
    size = f"{format_size(done.bytes_before)} -> {format_size(done.bytes_after)}, {done.segments_before:,} -> "
    size += f"{format_count(done.segments_after, 'segment')}, {done.rewritten:,} of them copied"
    return [*damaged, records, size, f"{format_count(done.keys, 'new key')} read, {seconds:.1f} s"]


# --- explain --------------------------------------------------------------------------------------------------------


def _explain(args: Args) -> int:
    if (args.offset is None) == (args.key is None):
        raise InvalidArgument("give the record to explain: OFFSET, or --key KEY")
    with _explainable(args) as log:
        found = [log.explain(args.offset)] if args.key is None else log.explain_key(os.fsencode(args.key))
    if args.json:
        for one in found:
            output.say_json(output.plain(one) | {"key": encode_bytes(one.key)})
    else:
        output.say(*_explained(found))
        if not found:
            output.say(f"no record with key {args.key} is in the log")
    return Exit.OK


@contextmanager
def _explainable(args: Args) -> Iterator[Log]:
    """Open the log that holds the record: of a topic the partition of --key."""
    place = local(args)
    if args.key is None:
        one_partition(place, "offsets count")
    path = place.path
    if is_whole_topic(place) and place.topic is not None:
        from seglog.topic.layout import description
        from seglog.topic.partitioner import partition_of

        path = str(place.topic / str(partition_of(os.fsencode(args.key), description.read(place.topic).partitions)))
    with opened(path, mode="r") as log:
        yield log


def _explained(found: Sequence[Explanation]) -> list[str]:
    """Return a line for each record, and the full explanation for the first of those with the same reason."""
    lines: list[str] = []
    said = None
    for one in found:
        key = encode_bytes(one.key)
        named = "" if key is None else f", key {key if isinstance(key, str) else key['base64'] + ' (base64)'}"
        what = one.what if one.superseded_by is None else f"{one.what}, by {one.superseded_by}"
        lines.append(f"offset {one.offset}{named}: {what} ({one.because})")
        if (one.what, one.because) != said:
            place = [] if one.segment is None else [f"  {one.segment.text}"]
            lines += [f"  {one.text}", *place]
        said = one.what, one.because
    return lines


# --- pin ------------------------------------------------------------------------------------------------------------


def _pin(args: Args) -> int:
    if args.name is not None and (args.offset is None) != args.drop:
        raise InvalidArgument("give the follower's next offset or remove its pin: NAME OFFSET, or NAME --drop")
    if args.name is None and args.drop:
        raise InvalidArgument("give the pin to remove: NAME --drop")
    place = local(args)
    if args.name is not None:
        one_partition(place, "a follower's offset counts")
    with logs_to_read(place) as logs:
        for number, log in logs.items():
            _change_pin(args, log)
            _say_pins(args, number if is_whole_topic(place) else None, log.pins, log.next_offset)
    return Exit.OK


def _change_pin(args: Args, log: Log) -> None:
    if args.drop and args.name not in log.pins:
        raise InvalidArgument(f"{args.log} has no pin {args.name}; `seglog pin {args.log}` lists them")
    if args.drop:
        log.unpin(args.name)
    elif args.name is not None:
        log.pin(args.name, args.offset)


def _say_pins(args: Args, number: int | None, pins: dict[str, int], end: int) -> None:
    if args.json:
        named = {} if number is None else {"partition": number}
        output.say_json(named | {"pins": pins, "next_offset": end})
    else:
        _say_of(number, _pin_lines(pins, end) or ["no pins"])


def _pin_lines(pins: dict[str, int], end: int) -> list[str]:
    table: list[tuple[str, Any]] = sorted(pins.items(), key=lambda pin: pin[1])
    longest = max((len(name) for name, _ in table), default=0)
    return [f"{name:<{longest}}  {offset:>{len(str(end))}}  {max(end - offset, 0):,} behind" for name, offset in table]


COMMANDS = (
    Command(
        "compact",
        _compact,
        [
            PLACE,
            option(
                "--rate",
                metavar="SIZE",
                type=parse_size,
                help="read and write at most this many bytes a second in total (64MiB)",
            ),
            flag("--roll", help="seal the active segment first, so that all records are considered"),
            flag("--generational", help="read only segments expected to free enough, as the Cleaner does"),
            flag("--dry-run", help="read the keys, print what would be removed, change nothing"),
            QUIET,
            WAIT,
            *SERVER,
        ],
        story=(
            "Offsets stay as they are. Tombstones go some time (--delete-retention of `seglog append`) after the\n"
            "first compaction that saw them. The active segment is left alone, unless --roll ends it first.\n"
            "Readers go on meanwhile. Of a topic: every partition. A server always rolls, and takes neither --rate\n"
            "nor --generational nor --dry-run."
        ),
        examples=[
            "seglog compact orders --dry-run",
            "seglog compact orders --roll --rate 50MiB",
            "seglog compact shop/orders",
            "seglog compact http://127.0.0.1:3000/orders",
            "seglog append orders --compact --lines < /dev/null   # makes orders a log that can be compacted",
        ],
    ),
    Command(
        "explain",
        _explain,
        [
            LOG,
            argument("offset", type=parse_offset, required=False, help="the record's offset"),
            option("--key", metavar="KEY", help="explain every record of this key"),
        ],
        story=(
            "With --key: the same for every record of a key, the oldest first; with --json an object a line. Of a\n"
            "topic: --key, or name the partition of the offset."
        ),
        examples=[
            "seglog explain shop/orders --key user-1",
            "seglog explain orders 42",
            "seglog explain orders --key user-1 --json | jq .because",
        ],
    ),
    Command(
        "pin",
        _pin,
        [
            LOG,
            argument("name", required=False, help="the follower"),
            argument("offset", type=parse_offset, required=False, help="the next offset it will read"),
            flag("--drop", help="remove the follower's pin"),
        ],
        story=(
            "NAME is a consumer or a copy of the log; OFFSET is the next one it will read. Compactions keep every\n"
            "tombstone from there on. Without NAME: lists the pins, of a topic those of every partition. A damaged\n"
            "pin counts as 0: it keeps all."
        ),
        examples=["seglog pin orders copy-2 1000", "seglog pin orders", "seglog pin orders copy-2 --drop"],
    ),
)
