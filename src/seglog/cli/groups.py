"""`groups`: list consumer groups and their lag, reset committed offsets, delete a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seglog.cli.brokers import changing, looking
from seglog.cli.frame import Args, Command, Verbs, argument, option, refuse_together
from seglog.cli.options import YES
from seglog.cli.verbs import ROOT, table
from seglog.cli.waiting import WAIT
from seglog.errors import InvalidArgument, OffsetOutOfRange
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, parse_count, parse_moment, parse_offset

if TYPE_CHECKING:
    from seglog.log.log import Log
    from seglog.topic.broker import Broker
    from seglog.topic.groups import GroupState

_ENDS = ("earliest", "latest")


def _parse_place(text: str) -> str | int:
    return text if text in _ENDS else parse_offset(text)


# --- showing ------------------------------------------------------------------------------------------------------


def _list(args: Args) -> int:
    with looking(args.root) as broker:
        groups = broker.groups
        states = [groups.describe(name) for name in groups.names()]
    if args.json:
        output.say_json({"groups": [_facts(state) for state in states]})
        return Exit.OK
    rows: list[tuple[object, ...]] = [
        (state.name, len(state.members), ", ".join(sorted({topic for topic, _ in state.lag})), sum(state.lag.values()))
        for state in states
    ]
    output.say(*(table(("group", "members", "topics", "lag"), rows) if rows else ["no groups"]))
    return Exit.OK


def _facts(state: GroupState) -> dict[str, Any]:
    """Return a group as the HTTP API does."""
    from seglog.topic.positions import nested

    members = [output.plain(member) for member in state.members]
    return {
        "name": state.name,
        "generation": state.generation,
        "members": members,
        "committed": state.committed,
        "lag": nested(state.lag),
    }


def _show(args: Args) -> int:
    with looking(args.root) as broker:
        state = broker.groups.describe(args.group)
    if args.json:
        output.say_json(_facts(state))
        return Exit.OK
    owners = {partition: member.id for member in state.members for partition in member.assignment}
    rows: list[tuple[object, ...]] = [
        (topic, number, state.committed.get(topic, {}).get(number, "-"), lag, owners.get((topic, number), "-"))
        for (topic, number), lag in state.lag.items()
    ]
    members = format_count(len(state.members), "member")
    output.say(f"{state.name}: {members}, generation {state.generation}")
    if rows:
        output.say("", *table(("topic", "partition", "committed", "lag", "member"), rows))
    return Exit.OK


# --- changing -----------------------------------------------------------------------------------------------------


def _reset(args: Args) -> int:
    refuse_together(args, "to", "time")
    if args.to is None and args.time is None:
        raise InvalidArgument("give the new position: --to (earliest, latest or an offset) or --time")
    with changing(args.root, f"POST /groups/{args.group}/offsets", wait=args.wait) as broker:
        before = broker.groups.describe(args.group).committed.get(args.topic, {})
        offsets = _places(broker, args)
        if not _may_drop_members(broker, args):
            return Exit.FAILED
        broker.groups.commit(args.group, {args.topic: offsets}, durable=True)
    if args.json:
        output.say_json({"group": args.group, "offsets": {args.topic: offsets}, "before": {args.topic: before}})
        return Exit.OK
    rows: list[tuple[object, ...]] = [
        (args.topic, number, before.get(number, "-"), offset) for number, offset in offsets.items()
    ]
    output.say(*table(("topic", "partition", "before", "now"), rows))
    return Exit.OK


def _places(broker: Broker, args: Args) -> dict[int, int]:
    """Return partition -> the offset at which the group continues."""
    topic = broker.topic(args.topic)
    if args.partition is None and isinstance(args.to, int) and topic.partitions > 1:
        raise InvalidArgument(
            f"topic {args.topic!r} has {topic.partitions} partitions: choose one for the offset with --partition"
        )
    numbers = range(topic.partitions) if args.partition is None else [args.partition]
    return {number: _place(topic.partition(number), args.to, args.time) for number in numbers}


def _place(log: Log, to: str | int | None, time_us: int | None) -> int:
    lowest, end = log.lowest_offset, log.next_offset
    if time_us is not None:
        found = log.offset_at(time_us)
        return end if found is None else found
    if isinstance(to, int):
        if not lowest <= to <= end:
            raise OffsetOutOfRange(to, lowest, end)
        return to
    return lowest if to == "earliest" else end


def _may_drop_members(broker: Broker, args: Args) -> bool:
    """Remove the group's members: no server is running, so they are not connected and will rejoin."""
    members = broker.groups.describe(args.group).members
    if not members:
        return True
    question = f"Group {args.group} has {format_count(len(members), 'member')} that will have to rejoin. Continue?"
    if not output.confirmed(question, yes=args.yes):
        output.note("nothing was changed")
        return False
    for member in members:
        broker.groups.leave(args.group, member.id)
    return True


def _delete(args: Args) -> int:
    with changing(args.root, f"DELETE /groups/{args.group}", wait=args.wait) as broker:
        committed = broker.groups.committed(args.group)
        count = format_count(sum(len(of) for of in committed.values()), "committed offset")
        if not output.confirmed(f"Delete group {args.group} with {count} permanently?", yes=args.yes):
            output.note("nothing was changed")
            return Exit.FAILED
        if not _may_drop_members(broker, args):
            return Exit.FAILED
        broker.groups.delete(args.group)
    if args.json:
        output.say_json({"deleted": args.group, "committed": committed})
    else:
        output.say(f"deleted {args.group}: {count}")
    return Exit.OK


_GROUP = argument("group", help="the group's name")
_WHERE = (
    option("--topic", metavar="NAME", required=True, help="the topic"),
    option("--partition", metavar="P", type=parse_count, help="one partition; default: all"),
    option("--to", metavar="PLACE", type=_parse_place, help="earliest, latest or an offset"),
    option(
        "--time",
        metavar="TIME",
        type=parse_moment,
        help="the first record at or after this time: ISO 8601, '1h ago', @seconds or microseconds",
    ),
)

COMMANDS = (
    Verbs(
        "groups",
        [
            Command("list", _list, [ROOT], summary="show the groups of ROOT (the default verb)"),
            Command("show", _show, [ROOT, _GROUP], summary="show a group's members, committed offsets and lag"),
            Command(
                "reset",
                _reset,
                [ROOT, _GROUP, *_WHERE, YES, WAIT],
                summary="set the offsets at which a group continues; its members rejoin",
            ),
            Command("delete", _delete, [ROOT, _GROUP, YES, WAIT], summary="delete a group and its committed offsets"),
        ],
        story=(
            "ROOT is the directory of topics that `seglog serve` takes. Listing works beside a server; reset and\n"
            "delete need exclusive access to ROOT (on a running server use the HTTP API).\n"
            "`seglog groups VERB --help` shows the options."
        ),
        examples=[
            "seglog groups shop",
            "seglog groups show shop billing",
            "seglog groups reset shop billing --topic orders --to earliest",
            "seglog groups reset shop billing --topic orders --time 2024-05-01T12:00:00Z --partition 0",
            "seglog groups delete shop billing",
        ],
    ),
)
