"""`topics`: list, create, alter and delete the topics of a directory."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seglog.cli.brokers import changing, looking
from seglog.cli.frame import Args, Command, Verbs, argument, option
from seglog.cli.options import YES, as_typed, config_from, config_options, retention_options
from seglog.cli.verbs import ROOT, table
from seglog.cli.waiting import WAIT
from seglog.config import Retention
from seglog.errors import CorruptLog, FormatVersionError, InvalidArgument, SeglogError
from seglog.terminal import output
from seglog.terminal.exits import Exit, message_of
from seglog.terminal.units import format_count, format_size, parse_count

if TYPE_CHECKING:
    from seglog.config import LogConfig
    from seglog.topic.topic import Topic


def _list(args: Args) -> int:
    shown, failed = [], []
    with looking(args.root) as broker:
        for name in broker.topics():
            try:
                shown.append(_facts(broker.topic(name)))
            except SeglogError as error:
                failed.append({"name": name, "error": type(error).__name__, "message": message_of(error)})
    if args.json:
        output.say_json({"topics": shown} | ({"failed": failed} if failed else {}))
    else:
        heads = ("topic", "partitions", "records", "size", "keeps")
        rows = [_row(one) for one in shown]
        output.say(*(table(heads, rows) if rows else ["no topics"]))
        for one in failed:
            output.note(f"topic {one['name']!r} cannot be opened: {one['message']}")
    return Exit.FAILED if failed else Exit.OK


def _facts(topic: Topic) -> dict[str, Any]:
    logs = [topic.partition(number) for number in range(topic.partitions)]
    config = logs[0].config.to_json()
    return {
        "name": topic.name,
        "partitions": topic.partitions,
        "id": topic.id,
        "records": sum(segment.records for log in logs for segment in log.segments),
        "bytes": sum(log.size for log in logs),
        "retention": config["retention"],
        "config": config,
    }


def _row(facts: dict[str, Any]) -> tuple[object, ...]:
    default = dataclasses.asdict(Retention())
    kept = [f"{name} {as_typed(name, value)}" for name, value in facts["retention"].items() if value != default[name]]
    size = format_size(facts["bytes"])
    return facts["name"], facts["partitions"], facts["records"], size, ", ".join(kept) or "everything"


def _create(args: Args) -> int:
    from seglog.topic.creation import check_partitions
    from seglog.topic.names import checked_name

    checked_name(args.name, "topic")  # check before a directory of topics is created
    check_partitions(args.partitions)
    config = _config(args)
    with changing(args.root, "POST /topics", create=True, wait=args.wait) as broker:
        facts = _facts(broker.create_topic(args.name, partitions=args.partitions, config=config))
    if args.json:
        output.say_json(facts)
    else:
        output.say(f"created {args.name} with {format_count(facts['partitions'], 'partition')}")
    return Exit.OK


def _alter(args: Args) -> int:
    with changing(args.root, f"PATCH /topics/{args.name}", wait=args.wait) as broker:
        broker.topic(args.name)
        config = _config(args)
        if config is None:
            raise InvalidArgument("give at least one option to change, such as --retention-age 7d; see --help")
        broker.alter_retention(args.name, config.retention)
        facts = _facts(broker.topic(args.name))
    if args.json:
        output.say_json(facts)
    else:
        output.say(f"{args.name} keeps {_row(facts)[-1]}")
    return Exit.OK


def _config(args: Args) -> LogConfig | None:
    """Return the topic's stored config (its first partition's) with the given options applied."""
    args.log = str(Path(args.root) / args.name / "0")
    return config_from(args)


def _delete(args: Args) -> int:
    held = _held(args)
    question = f"Delete topic {args.name} ({held}) permanently?"
    if not output.confirmed(question, yes=args.yes):
        output.note("nothing was changed")
        return Exit.FAILED
    with changing(args.root, f"DELETE /topics/{args.name}", wait=args.wait) as broker:
        broker.delete_topic(args.name)
    if args.json:
        output.say_json({"deleted": args.name})
    else:
        output.say(f"deleted {args.name}: {held}")
    return Exit.OK


def _held(args: Args) -> str:
    """Describe what a topic holds; a damaged topic can be deleted too."""
    with looking(args.root) as broker:
        try:
            facts = _facts(broker.topic(args.name))
        except (CorruptLog, FormatVersionError):
            return "unknown content: it is damaged"
        return f"{format_count(facts['records'], 'record')}, {format_size(facts['bytes'])}"


_NAME = argument("name", help="the topic's name")
_PARTITIONS = option("--partitions", metavar="N", type=parse_count, default=1, help="how many partitions; default 1")

COMMANDS = (
    Verbs(
        "topics",
        [
            Command("list", _list, [ROOT], summary="show the topics of ROOT (the default verb)"),
            Command(
                "create",
                _create,
                [ROOT, _NAME, _PARTITIONS, WAIT, *config_options()],
                summary="create a topic, and ROOT if it does not exist",
            ),
            Command(
                "alter",
                _alter,
                [ROOT, _NAME, WAIT, *retention_options()],
                summary="change what a topic keeps, with immediate effect",
            ),
            Command(
                "delete",
                _delete,
                [ROOT, _NAME, YES, WAIT],
                summary="delete a topic, its records and its committed offsets",
            ),
        ],
        story=(
            "A topic is a directory of partitions, each a log. ROOT is the directory of topics that `seglog serve`\n"
            "takes. Listing works beside a server; the other verbs need exclusive access to ROOT (on a running\n"
            "server use the HTTP API). `seglog topics VERB --help` shows the options."
        ),
        examples=[
            "seglog topics shop",
            "seglog topics create shop orders --partitions 4 --retention-age 7d",
            "seglog topics alter shop orders --retention-bytes 10GiB",
            "seglog topics delete shop orders",
        ],
    ),
)
