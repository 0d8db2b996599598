"""`groups`: list consumer groups and their lag, reset committed offsets, delete a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seglog.cli.frame import Args, Command, Verbs, option, refuse_together
from seglog.cli.location import SERVER_AS_ROOT
from seglog.cli.lock_wait import WAIT
from seglog.cli.options import YES
from seglog.cli.roots import Root, root_to_change, root_to_read, settle
from seglog.cli.topic_options import ROOT, after_root, table
from seglog.errors import InvalidArgument, OffsetOutOfRange
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, parse_count, parse_moment, parse_offset
from seglog.visible import visible_name

if TYPE_CHECKING:
    from seglog.topic.groups import GroupState

_ENDS = ("earliest", "latest")


def _parse_place(text: str) -> str | int:
    return text if text in _ENDS else parse_offset(text)


# --- showing ------------------------------------------------------------------------------------------------------


def _list(args: Args) -> int:
    settle(args)
    with root_to_read(args) as root:
        states = root.groups()
    if args.json:
        output.say_json({"groups": [_facts(state) for state in states]})
        return Exit.OK
    rows = [(visible_name(state.name), len(state.members), _topics(state), sum(state.lag.values())) for state in states]
    output.say(*(table(("group", "members", "topics", "lag"), rows) if rows else ["no groups"]))
    return Exit.OK


def _topics(state: GroupState) -> str:
    return ", ".join(sorted({topic for topic, _ in state.lag}))


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
    settle(args, "group")
    with root_to_read(args) as root:
        state = root.group(args.group)
    if args.json:
        output.say_json(_facts(state))
        return Exit.OK
    owners = {partition: visible_name(member.id) for member in state.members for partition in member.assignment}
    rows: list[tuple[object, ...]] = [
        (topic, number, state.committed.get(topic, {}).get(number, "-"), lag, owners.get((topic, number), "-"))
        for (topic, number), lag in state.lag.items()
    ]
    members = format_count(len(state.members), "member")
    output.say(f"{visible_name(state.name)}: {members}, generation {state.generation}")
    if rows:
        output.say("", *table(("topic", "partition", "committed", "lag", "member"), rows))
    return Exit.OK


# --- changing -----------------------------------------------------------------------------------------------------


def _reset(args: Args) -> int:
    settle(args, "group")
    refuse_together(args, "to", "time")
    if args.to is None and args.time is None:
        raise InvalidArgument("give the new position: --to (earliest, latest or an offset) or --time")
    with root_to_change(args, f"POST /groups/{args.group}/offsets") as root:
        state = root.group(args.group)
        before = state.committed.get(args.topic, {})
        offsets = _places(root, args)
        if not _may_drop_members(root, state, args):
            return Exit.FAILED
        root.commit(args.group, {args.topic: offsets})
    if args.json:
        output.say_json({"group": args.group, "offsets": {args.topic: offsets}, "before": {args.topic: before}})
        return Exit.OK
    rows: list[tuple[object, ...]] = [
        (args.topic, number, before.get(number, "-"), offset) for number, offset in offsets.items()
    ]
    output.say(*table(("topic", "partition", "before", "now"), rows))
    return Exit.OK


def _places(root: Root, args: Args) -> dict[int, int]:
    """Return partition -> the offset at which the group is to read on."""
    bounds = root.bounds(args.topic)
    if args.partition is None and isinstance(args.to, int) and len(bounds) > 1:
        raise InvalidArgument(f"topic {args.topic!r} has {len(bounds)} partitions: name the offset's with --partition")
    if args.partition is not None and args.partition not in bounds:
        raise InvalidArgument(f"topic {args.topic!r} has partitions 0 to {len(bounds) - 1}, not {args.partition}")
    found = {} if args.time is None else root.offset_at(args.topic, args.time)
    numbers = sorted(bounds) if args.partition is None else [args.partition]
    return {number: _place(*bounds[number], args.to, found.get(number)) for number in numbers}


def _place(lowest: int, end: int, to: str | int | None, found: int | None) -> int:
    """Return where to read on. found: the offset of --time, None where all records are older."""
    if to is None:
        return end if found is None else found
    if isinstance(to, int):
        if not lowest <= to <= end:
            raise OffsetOutOfRange(to, lowest, end)
        return to
    return lowest if to == "earliest" else end


def _may_drop_members(root: Root, state: GroupState, args: Args) -> bool:
    """Drop the group's members if it has any. In a directory no server runs: they will join again."""
    if not state.members:
        return True
    drop = root.dropping(state)
    count = format_count(len(state.members), "member")
    question = f"Group {visible_name(state.name)} has {count} that will have to rejoin. Continue?"
    if not output.confirmed(question, yes=args.yes):
        output.note("nothing was changed")
        return False
    drop()
    return True


def _delete(args: Args) -> int:
    settle(args, "group")
    with root_to_change(args, f"DELETE /groups/{args.group}") as root:
        state = root.group(args.group)
        committed = state.committed
        count = format_count(sum(len(of) for of in committed.values()), "committed offset")
        if not output.confirmed(f"Delete group {args.group} with {count} permanently?", yes=args.yes):
            output.note("nothing was changed")
            return Exit.FAILED
        if not _may_drop_members(root, state, args):
            return Exit.FAILED
        root.delete_group(args.group)
    if args.json:
        output.say_json({"deleted": args.group, "committed": committed})
    else:
        output.say(f"deleted {args.group}: {count}")
    return Exit.OK


_GROUP = after_root("group", "the group's name")
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
            Command(
                "list",
                _list,
                [ROOT, *SERVER_AS_ROOT],
                summary="show the groups of ROOT; the word may be left out",
            ),
            Command(
                "show",
                _show,
                [ROOT, _GROUP, *SERVER_AS_ROOT],
                summary="show a group's members, committed offsets and lag",
            ),
            Command(
                "reset",
                _reset,
                [ROOT, _GROUP, *_WHERE, YES, WAIT, *SERVER_AS_ROOT],
                summary="set the offsets at which a group continues; its members rejoin",
            ),
            Command(
                "delete",
                _delete,
                [ROOT, _GROUP, YES, WAIT, *SERVER_AS_ROOT],
                summary="delete a group and its committed offsets",
            ),
        ],
        story=(
            "ROOT is the directory of topics, as `seglog serve` takes it, or a server. Showing a directory works\n"
            "beside a server that has it; for reset and delete no other process may have it open for writing: name\n"
            "the server instead, which changes a group without members. `seglog groups VERB --help` shows the options."
        ),
        examples=[
            "seglog groups shop",
            "seglog groups show shop billing",
            "seglog groups reset shop billing --topic orders --to earliest",
            "seglog groups reset shop billing --topic orders --time 2024-05-01T12:00:00Z --partition 0",
            "seglog groups delete shop billing",
            "seglog groups http://127.0.0.1:3000",
            "seglog groups reset --url http://127.0.0.1:3000 billing --topic orders --to latest",
        ],
    ),
)
