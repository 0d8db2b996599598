"""`replay`: apply the records of a log to a state machine, with snapshots; print the state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO

from seglog.cli.frame import Args, Command, File, argument, flag, option, refuse_together
from seglog.cli.location import SERVER, Remote, client_for, locate
from seglog.cli.options import FORCE, PLACE
from seglog.errors import InvalidArgument
from seglog.format.lines import encode_bytes
from seglog.record import EPOCH
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, parse_count, parse_moment, parse_offset

if TYPE_CHECKING:
    from seglog.machines.machine import Machine
    from seglog.machines.part import Part
    from seglog.machines.replay import Replayed, ReplayedLog
    from seglog.machines.snapshots import Snapshots

_SNAPSHOTS = "Snapshots"


def _replay(args: Args) -> int:
    from seglog.machines.machine import named_machine
    from seglog.machines.per_key import PerKey
    from seglog.machines.replay import replay_parts

    refuse_together(args, "stop", "to_time")
    of_key = named_machine(args.machine)
    machine: Machine[Any] = PerKey(of_key) if args.per_key else of_key
    stop = args.stop if args.to_time is None else _moment(args.to_time)
    kept = _snapshots(args)
    with _parts(args) as parts, output.target(args.output, force=args.force) as sink:
        found = replay_parts(parts, machine, stop=stop, snapshots=kept)
        for number, key, one, state in _states(found, of_key, per_key=args.per_key):
            if args.json:
                _write_json(sink, number, key, one, state, per_key=args.per_key)
            else:
                words = [b"%d" % number] * (len(parts) > 1) + [key or b""] * args.per_key
                sink.write(b"\t".join([*words, state]) + b"\n")
    _note(found, parts)
    return Exit.OK


@contextmanager
def _parts(args: Args) -> Iterator[dict[int, Part]]:
    from seglog.machines.parts import parts_of

    place = locate(args)
    if isinstance(place, Remote):
        from seglog.machines.remote import parts_of_topic

        with client_for(args, place) as client:
            yield parts_of_topic(client.topic(place.topic), place.partition)
        return
    with parts_of(place.path) as parts:
        yield parts


def _moment(microseconds: int) -> datetime:
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise InvalidArgument("--to-time is outside the years 1 to 9999") from None


def _snapshots(args: Args) -> Snapshots | None:
    from seglog.machines.snapshots import EVERY_RECORDS, KEPT, Snapshots

    if args.snapshots is None:
        if args.every is not None or args.keep is not None:
            raise InvalidArgument("--every and --keep are options of --snapshots DIRECTORY; give it too")
        return None
    return Snapshots(
        args.snapshots,
        every=EVERY_RECORDS if args.every is None else args.every,
        keep=KEPT if args.keep is None else args.keep,
    )


def _states(
    found: Replayed[Any], machine: Machine[Any], *, per_key: bool
) -> Iterator[tuple[int, bytes | None, ReplayedLog[Any], bytes]]:
    """Yield partition, key, the partition's result and the encoded state of every machine."""
    for number, one in found.partitions.items():
        if not per_key:
            yield number, None, one, machine.encode(one.state)
            continue
        for key, (_, state) in one.state.items():
            yield number, key, one, machine.encode(state)


def _write_json(
    sink: BinaryIO, number: int, key: bytes | None, one: ReplayedLog[Any], state: bytes, *, per_key: bool
) -> None:
    import json

    named = {"key": encode_bytes(key)} if per_key else {}
    figures = {"next_offset": one.next_offset, "records": one.records, "resumed_at": one.resumed_at}
    sink.write(json.dumps({"partition": number, **named, **figures, "state": encode_bytes(state)}).encode() + b"\n")


def _note(found: Replayed[Any], parts: dict[int, Part]) -> None:
    for number, one in found.partitions.items():
        for name, why in one.unusable.items():
            output.note(f"snapshot {name} was not used: {why}")
        begun = "" if one.resumed_at is None else f" after the snapshot at offset {one.resumed_at}"
        output.note(
            f"{parts[number].name}: {format_count(one.records, 'record')} applied{begun}; next offset {one.next_offset}"
        )


COMMANDS = (
    Command(
        "replay",
        _replay,
        [
            PLACE,
            argument(
                "machine",
                metavar="MODULE:MACHINE",
                help="the state machine: an object, or a class, which is called without arguments",
            ),
            option("--stop", metavar="OFFSET", type=parse_offset, help="the state before this offset; default: now"),
            option(
                "--to-time",
                metavar="TIME",
                type=parse_moment,
                help="the state before this time: ISO 8601, '1h ago', @seconds, or int microseconds",
            ),
            flag("--per-key", help="one machine for each key; prints the key and a tab before each state"),
            option(
                "--snapshots",
                metavar="DIRECTORY",
                type=File(),
                help="continue from the newest snapshot there, and store new ones",
                group=_SNAPSHOTS,
            ),
            option(
                "--every",
                metavar="N",
                type=parse_count,
                help="records between two snapshots; default 1000000; one more is stored at the end",
                group=_SNAPSHOTS,
            ),
            option(
                "--keep",
                metavar="N",
                type=parse_count,
                help="how many snapshots of each partition are kept; default 2",
                group=_SNAPSHOTS,
            ),
            option("--output", metavar="FILE", type=File(), default="-", help="write here; it appears when complete"),
            FORCE,
            *SERVER,
        ],
        story=(
            "A machine has initial() -> state, apply(state, record) -> state and encode(state) -> bytes, and for\n"
            "snapshots decode(bytes) -> state. Modules are also searched in the working directory. Prints the\n"
            "encoded state; for a topic one line for each partition, with its number and a tab before it."
        ),
        examples=[
            "seglog replay ledger bank:Bank",
            "seglog replay ledger bank:Bank --snapshots ledger-states",
            "seglog replay ledger bank:Bank --to-time 2024-05-01",
            "seglog replay shop/orders totals:Totals --per-key --json",
        ],
    ),
)
