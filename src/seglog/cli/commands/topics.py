"""`topics`: list, create, alter and delete the topics of a directory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seglog.cli.config_options import (
    alter_options,
    changed_part,
    changes_given,
    config_over,
    topic_options,
    typed,
)
from seglog.cli.frame import Args, Command, Verbs, option
from seglog.cli.location import SERVER_AS_ROOT
from seglog.cli.lock_wait import WAIT
from seglog.cli.options import YES
from seglog.cli.roots import Facts, Root, root_to_change, root_to_read, settle
from seglog.cli.topic_options import ROOT, after_root, table
from seglog.config import LogConfig, Retention
from seglog.errors import CorruptLog, FormatVersionError, InvalidArgument, SeglogError
from seglog.policies import Policies
from seglog.settings import declared
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, format_size, parse_count
from seglog.topic.layout.locations import is_location


def _list(args: Args) -> int:
    settle(args)
    with root_to_read(args) as root:
        shown, failed = root.topics()
    if args.json:
        output.say_json({"topics": shown} | ({"failed": failed} if failed else {}))
    else:
        heads = ("topic", "partitions", "records", "size", "keeps")
        rows = [_row(one) for one in shown]
        output.say(*(table(heads, rows) if rows else ["no topics"]))
        for one in failed:
            output.note(f"topic {one['name']!r} cannot be opened: {one['message']}")
    return Exit.FAILED if failed else Exit.OK


def _row(facts: Facts) -> tuple[object, ...]:
    parts = Retention.from_json(facts["retention"]), Policies.from_json(facts["policies"])
    kept = [f"{name} {value}" for part in parts for name, value in changed_part(part).items()]
    kept += [f"{name} {value} (unknown to this version)" for name, value in facts.get("unknown", {}).items()]
    size = format_size(facts["bytes"])
    return facts["name"], facts["partitions"], facts["records"], size, ", ".join(kept) or "everything"


def _create(args: Args) -> int:
    from seglog.topic.layout.creation import check_partitions
    from seglog.topic.layout.names import checked_name

    settle(args, "name")
    checked_name(args.name, "topic")  # an error in the words leaves no directory of topics
    check_partitions(args.partitions)
    config, policies = config_over(args, LogConfig), changes_given(args).get("policies")
    with root_to_change(args, "POST /topics", create=True) as root:
        facts = root.create(args.name, args.partitions, config, policies)
    if args.json:
        output.say_json(facts)
    else:
        output.say(f"created {args.name} with {format_count(facts['partitions'], 'partition')}")
    return Exit.OK


def _alter(args: Args) -> int:
    """Partitions are added last: that cannot be undone, and a server of an earlier version may refuse a setting."""
    from seglog.topic.layout.creation import check_added

    settle(args, "name")
    changes = changes_given(args)
    with root_to_change(args, f"PATCH /topics/{args.name}") as root:
        facts = root.topic(args.name)
        if not changes and args.partitions is None:
            raise InvalidArgument("give at least one option to change, such as --retention-age 7d; see --help")
        if args.partitions is not None:
            check_added(args.name, facts["partitions"], args.partitions)
        if changes:
            facts = root.alter(args.name, changes)
        if args.partitions is not None:
            facts = _grown(root, args, changes)
    if args.json:
        output.say_json(facts)
    else:
        output.say(*_alterations(args, facts, changes))
    return Exit.OK


def _grown(root: Root, args: Args, changes: dict[str, Any]) -> Facts:
    try:
        return root.add_partitions(args.name, args.partitions)
    except SeglogError as error:
        if changes:
            error.add_note("the settings are changed, and no partition is added")
        raise


def _alterations(args: Args, facts: Facts, changes: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each change."""
    if args.partitions is not None:
        yield f"{args.name} has {format_count(facts['partitions'], 'partition')}"
    if changes.keys() & {"retention", "policies"}:
        yield f"{args.name} keeps {_row(facts)[-1]}"
    for name, value in changes.items():
        if name not in ("retention", "policies"):
            note = _codec_note(args) if name == "compression" else ""
            yield f"{args.name} has the {name} {typed(declared(LogConfig)[name], value)}{note}"


def _codec_note(args: Args) -> str:
    """Return who stores the segments in the new form: a server by itself, a directory none until it is served."""
    if is_location(args.root):
        return ""
    return f"; a server stores the segments with it, or `seglog compress {args.root}/{args.name}` does now"


def _delete(args: Args) -> int:
    settle(args, "name")
    held = _held(args)
    question = f"Delete topic {args.name} ({held}) permanently?"
    if not output.confirmed(question, yes=args.yes):
        output.note("nothing was changed")
        return Exit.FAILED
    with root_to_change(args, f"DELETE /topics/{args.name}") as root:
        root.delete(args.name)
    if args.json:
        output.say_json({"deleted": args.name})
    else:
        output.say(f"deleted {args.name}: {held}")
    return Exit.OK


def _held(args: Args) -> str:
    """Describe what a topic holds; a damaged topic can be deleted too."""
    with root_to_read(args) as root:
        try:
            facts = root.topic(args.name)
        except (CorruptLog, FormatVersionError):
            return "how much it holds cannot be read"
        return f"{format_count(facts['records'], 'record')}, {format_size(facts['bytes'])}"


_NAME = after_root("name", "the topic's name")
_PARTITIONS = option("--partitions", metavar="N", type=parse_count, default=1, help="how many partitions; default 1")
_MORE_PARTITIONS = option(
    "--partitions",
    metavar="N",
    type=parse_count,
    default=None,
    help="how many partitions, more than now; keys are assigned to the new number from then on",
)

COMMANDS = (
    Verbs(
        "topics",
        [
            Command(
                "list", _list, [ROOT, *SERVER_AS_ROOT], summary="show the topics of ROOT; the word may be left out"
            ),
            Command(
                "create",
                _create,
                [ROOT, _NAME, _PARTITIONS, WAIT, *SERVER_AS_ROOT, *topic_options()],
                summary="create a topic, and ROOT if it does not exist",
            ),
            Command(
                "alter",
                _alter,
                [ROOT, _NAME, _MORE_PARTITIONS, WAIT, *SERVER_AS_ROOT, *alter_options()],
                summary="change what a topic keeps or how it is written, at once, or add partitions",
            ),
            Command(
                "delete",
                _delete,
                [ROOT, _NAME, YES, WAIT, *SERVER_AS_ROOT],
                summary="delete a topic, its records and its committed offsets",
            ),
        ],
        story=(
            "A topic is a directory of partitions, each a log. ROOT is the directory of topics, as `seglog serve`\n"
            "takes it, or a server. Listing a directory works beside a server that has it; for the other verbs no\n"
            "other process may have it open for writing: name the server instead. `seglog topics VERB --help` shows\n"
            "the options."
        ),
        examples=[
            "seglog topics shop",
            "seglog topics create shop orders --partitions 4 --retention-age 7d",
            "seglog topics alter shop orders --retention-bytes 10GiB",
            "seglog topics alter shop orders --partitions 8",
            "seglog topics alter shop orders --compression zstd",
            "seglog topics delete shop orders",
            "seglog topics http://127.0.0.1:3000",
            "seglog topics create --url http://127.0.0.1:3000 orders --partitions 4",
        ],
    ),
)
