"""`compact`, `explain`, `pin`: logs that keep the latest record of every key. What is only told opens read only."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seglog.cli.frame import Args, Command, argument, flag, option
from seglog.cli.opened import opened
from seglog.cli.options import LOG, QUIET
from seglog.cli.progress import progress
from seglog.cli.waiting import WAIT, patiently
from seglog.clock import system_clock
from seglog.errors import ConfigError, InvalidArgument
from seglog.format.lines import encode_bytes
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, format_size, format_time, parse_offset, parse_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seglog.keyed.plan import Measured
    from seglog.keyed.schedule import Standing
    from seglog.log.explain import Explanation
    from seglog.log.info import CompactionReport
    from seglog.log.log import Log


# --- compact --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Garbage:
    """What a compaction would find. measured: of every segment it may read, in order."""

    measured: tuple[Measured, ...]

    @property
    def dead(self) -> int:
        """Records that would go."""
        return sum(one.dead for one in self.measured)

    @property
    def records(self) -> int:
        """Records there are."""
        return sum(one.entry.records or 0 for one in self.measured)

    @property
    def bytes(self) -> int:
        """Bytes that would go, about."""
        from seglog.keyed.plan import record_bytes

        return sum(record_bytes(one.entry) - one.live_bytes for one in self.measured)

    def shares(self) -> dict[int, float]:
        """Return base offset -> share of a segment's records that would go."""
        return {one.entry.base_offset: one.dead / max(one.entry.records or 0, 1) for one in self.measured}


def garbage_of(log: Log, *, quiet: bool, generational: bool = False) -> Garbage:
    """Read the keys of a log and return what a compaction would find now; changes nothing."""
    from seglog.keyed.measure import measure
    from seglog.keyed.plan import make_plan
    from seglog.keyed.schedule import least_pin, scheduled_plan
    from seglog.storage import LocalStorage

    view, pinned, now = log.view(), least_pin(log.pins), system_clock()  # held, so that no file of it goes
    plan = (scheduled_plan if generational else make_plan)(view.manifest, now, pinned=pinned)
    with progress("measure", unit="B", quiet=quiet) as report:
        return Garbage(measure(plan, LocalStorage(log.path), progress=report))


def _compact(args: Args) -> int:
    with opened(args.log, mode="r") as log:  # never creates a log, which "a" would
        if not log.config.retention.compact:
            how = f"`seglog append {args.log} --compact --lines < /dev/null` makes it so"
            raise ConfigError(f"{args.log} is not compacted by key (retention.compact); {how}")
        if args.dry_run:
            return _dry_run(args, log)
    started = time.monotonic()
    with (
        patiently(lambda: opened(args.log, mode="a"), args.wait) as log,
        progress("compact", unit="B", quiet=args.quiet) as report,
    ):
        done = log.compact(roll=args.roll, generational=args.generational, progress=report, bytes_per_second=args.rate)
    if args.json:
        output.say_json(output.plain(done) | {"seconds": time.monotonic() - started, "dry_run": False})
    elif not args.quiet or done.damaged:
        output.say(*_report(done, time.monotonic() - started))
    return Exit.FAILED if done.damaged else Exit.OK


def _dry_run(args: Args, log: Log) -> int:
    standing, garbage = log.standing(), garbage_of(log, quiet=args.quiet, generational=args.generational)
    if args.json:
        told = {"records": garbage.records, "dead": garbage.dead, "bytes": garbage.bytes, "dry_run": True}
        output.say_json(told | {"standing": output.plain(standing)})
        return Exit.OK
    segments = sum(1 for one in garbage.measured if one.dead)
    output.say(
        f"due: {due_text(standing)}",
        f"would let go of {format_count(garbage.dead, 'record')} of {garbage.records:,}, about "
        f"{format_size(garbage.bytes)}, in {segments:,} of {format_count(len(garbage.measured), 'segment')}",
    )
    return Exit.OK


def due_text(standing: Standing) -> str:
    """Return whether a compaction is due, why, and when time will make one due."""
    dirty = f"{standing.ratio:.0%} of {format_size(standing.total_bytes)} is dirty"
    if standing.due is not None:
        return f"{standing.due}; {dirty}"
    later = "" if standing.next_at is None else f"; look again at {format_time(standing.next_at, precise=False)}"
    return f"no; {dirty}{later}"


def _report(done: CompactionReport, seconds: float) -> list[str]:
    damaged = [f"left as it is: {error}" for error in done.damaged]
    gone = done.superseded + done.tombstones + done.unkeyed
    if not done.rewritten and not gone:
        considered = format_count(done.segments_before, "sealed segment")
        hint = "" if done.segments_before else "; what was appended last waits in the active segment, --roll ends it"
        return [*damaged, f"nothing to let go of in {considered}, {format_count(done.records_before, 'record')}{hint}"]
    records = f"let go of {format_count(gone, 'record')} of {done.records_before:,}: {done.superseded:,} superseded"
    records += f", {format_count(done.tombstones, 'tombstone')}, {done.unkeyed:,} without a key"
    size = f"{format_size(done.bytes_before)} -> {format_size(done.bytes_after)}, {done.segments_before:,} -> "
    size += f"{format_count(done.segments_after, 'segment')}, {done.rewritten:,} of them copied"
    return [*damaged, records, size, f"{format_count(done.keys, 'new key')} looked at, {seconds:.1f} s"]


# --- explain --------------------------------------------------------------------------------------------------------


def _explain(args: Args) -> int:
    if (args.offset is None) == (args.key is None):
        raise InvalidArgument("say which record: OFFSET, or --key KEY")
    with opened(args.log, mode="r") as log:
        found = [log.explain(args.offset)] if args.key is None else log.explain_key(os.fsencode(args.key))
    if args.json:
        for one in found:
            output.say_json(output.plain(one) | {"key": encode_bytes(one.key)})
    else:
        output.say(*_explained(found))
        if not found:
            output.say(f"no record of key {args.key} is in the log")
    return Exit.OK


def _explained(found: Sequence[Explanation]) -> list[str]:
    """Return a line for each, and the whole story for the first of those that are there for the same reason."""
    lines: list[str] = []
    said = None
    for one in found:
        key = encode_bytes(one.key)
        named = "" if key is None else f", key {key if isinstance(key, str) else key['base64'] + ' (base64)'}"
        what = one.what if one.superseded_by is None else f"{one.what}, by {one.superseded_by}"
        lines.append(f"offset {one.offset}{named}: {what} ({one.because})")
        if (one.what, one.because) != said:
            place = [] if one.segment is None else [f"  {one.segment.state} segment {one.segment.name}"]
            lines += [f"  {one.text}", *place]
        said = one.what, one.because
    return lines


# --- pin ------------------------------------------------------------------------------------------------------------


def _pin(args: Args) -> int:
    if args.name is not None and (args.offset is None) != args.drop:
        raise InvalidArgument("say how far it is, or that it is gone: NAME OFFSET, or NAME --drop")
    if args.name is None and args.drop:
        raise InvalidArgument("say whom to forget: NAME --drop")
    with opened(args.log, mode="r") as log:
        if args.drop and args.name not in log.pins:
            raise InvalidArgument(f"{args.log} has no pin {args.name}; `seglog pin {args.log}` lists them")
        if args.drop:
            log.unpin(args.name)
        elif args.name is not None:
            log.pin(args.name, args.offset)
        pins, end = log.pins, log.next_offset
    if args.json:
        output.say_json({"pins": pins, "next_offset": end})
    else:
        output.say(*(_pin_lines(pins, end) or ["no pins"]))
    return Exit.OK


def _pin_lines(pins: dict[str, int], end: int) -> list[str]:
    table: list[tuple[str, Any]] = sorted(pins.items(), key=lambda pin: pin[1])
    longest = max((len(name) for name, _ in table), default=0)
    return [f"{name:<{longest}}  {offset:>{len(str(end))}}  {max(end - offset, 0):,} behind" for name, offset in table]


COMMANDS = (
    Command(
        "compact",
        _compact,
        [
            LOG,
            option(
                "--rate",
                metavar="SIZE",
                type=parse_size,
                help="read and write together at most this much a second (64MiB)",
            ),
            flag("--roll", help="end the active segment first, so that all is looked at"),
            flag("--generational", help="look only at segments that are expected to yield enough, as a cleaner does"),
            flag("--dry-run", help="read the keys, print what would be removed, change nothing"),
            QUIET,
            WAIT,
        ],
        story=(
            "Offsets stay as they are. Tombstones go some time (--delete-retention of `seglog append`) after the\n"
            "first compaction that saw them. The active segment is left alone, unless --roll ends it first.\n"
            "Readers go on meanwhile."
        ),
        examples=[
            "seglog compact orders --dry-run",
            "seglog compact orders --roll --rate 50MiB",
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
        story="With --key: the same for every record of a key, the oldest first; with --json an object a line.",
        examples=["seglog explain orders 42", "seglog explain orders --key user-1 --json | jq .because"],
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
            "tombstone from there on. Without NAME: lists the pins. A damaged pin counts as 0: it keeps all."
        ),
        examples=["seglog pin orders copy-2 1000", "seglog pin orders", "seglog pin orders copy-2 --drop"],
    ),
)
