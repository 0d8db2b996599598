"""`compact`, `explain`, `pin`: logs that keep the latest record of every key. Whatever only reports opens read-only."""

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
        from seglog.keyed.plan import record_bytes

        return sum(record_bytes(one.entry) - one.live_bytes for one in self.measured)

    def shares(self) -> dict[int, float]:
        """Return base offset -> the share of a segment's records that would be removed."""
        return {one.entry.base_offset: one.dead / max(one.entry.records or 0, 1) for one in self.measured}


def garbage_of(log: Log, *, quiet: bool, generational: bool = False) -> Garbage:
    """Read the keys of a log and return what a compaction would find now. Changes nothing."""
    from seglog.keyed.measure import measure
    from seglog.keyed.plan import make_plan
    from seglog.keyed.schedule import least_pin, scheduled_plan
    from seglog.storage import LocalStorage

    view, pinned, now = log.view(), least_pin(log.pins), system_clock()  # the view keeps its files from being deleted
    plan = (scheduled_plan if generational else make_plan)(view.manifest, now, pinned=pinned)
    with progress("measure", unit="B", quiet=quiet) as report:
        return Garbage(measure(plan, LocalStorage(log.path), progress=report))


def _compact(args: Args) -> int:
    with opened(args.log, mode="r") as log:  # mode "a" would create a missing log
        if not log.config.retention.compact:
            how = f"`seglog append {args.log} --compact --lines < /dev/null` changes that"
            raise ConfigError(f"{args.log} is not compacted by key (retention.compact is off); {how}")
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
        f"would remove {format_count(garbage.dead, 'record')} of {garbage.records:,}, about "
        f"{format_size(garbage.bytes)}, in {segments:,} of {format_count(len(garbage.measured), 'segment')}",
    )
    return Exit.OK


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
        hint = "" if done.segments_before else "; the latest records are in the active segment, --roll seals it"
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
    with opened(args.log, mode="r") as log:
        found = [log.explain(args.offset)] if args.key is None else log.explain_key(os.fsencode(args.key))
    if args.json:
        for one in found:
            output.say_json(output.plain(one) | {"key": encode_bytes(one.key)})
    else:
        output.say(*_explained(found))
        if not found:
            output.say(f"no record with key {args.key} is in the log")
    return Exit.OK


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
            place = [] if one.segment is None else [f"  {one.segment.state} segment {one.segment.name}"]
            lines += [f"  {one.text}", *place]
        said = one.what, one.because
    return lines


# --- pin ------------------------------------------------------------------------------------------------------------


def _pin(args: Args) -> int:
    if args.name is not None and (args.offset is None) != args.drop:
        raise InvalidArgument("give the follower's next offset or remove its pin: NAME OFFSET, or NAME --drop")
    if args.name is None and args.drop:
        raise InvalidArgument("give the pin to remove: NAME --drop")
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
                help="read and write at most this many bytes a second in total (64MiB)",
            ),
            flag("--roll", help="seal the active segment first, so that all records are considered"),
            flag("--generational", help="read only segments expected to free enough, as the Cleaner does"),
            flag("--dry-run", help="read the keys, print what would be removed, change nothing"),
            QUIET,
            WAIT,
        ],
        story=(
            "Offsets stay the same. A tombstone is removed some time (--delete-retention of `seglog append`) after\n"
            "the first compaction that read it. The active segment is not compacted unless --roll seals it first.\n"
            "Readers continue meanwhile."
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
        story="--key explains every record of the key, oldest first; with --json one object per line.",
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
            "NAME is a consumer or a copy of the log, OFFSET the next one it will read. Compactions keep every\n"
            "tombstone from there on. Without NAME: lists the pins. A damaged pin counts as 0: it keeps all tombstones."
        ),
        examples=["seglog pin orders copy-2 1000", "seglog pin orders", "seglog pin orders copy-2 --drop"],
    ),
)
