"""`audit`: count the keys of logs and what consumer groups received of them. Read-only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seglog.cli.frame import Args, Command, File, argument, flag, option
from seglog.cli.location import LocalPath
from seglog.errors import InvalidArgument
from seglog.format.lines import encode_bytes
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, parse_count, parse_size

if TYPE_CHECKING:
    from seglog.topic.audit import KeyAudit
    from seglog.topic.layout.places import Place
    from seglog.topic.positions import Positions


def _audit(args: Args) -> int:
    from seglog.topic.audit import MEMORY_BYTES, audit_keys
    from seglog.topic.layout.places import logs_at

    groups = _groups(args, logs_at(args.path))
    if args.limit is not None and not args.undelivered:
        raise InvalidArgument("--limit limits the keys that --undelivered lists; give --undelivered too")
    if args.undelivered and not groups:
        raise InvalidArgument("--undelivered needs the offsets of groups: give --delivered, --group or --checkpoint")
    memory_bytes = MEMORY_BYTES if args.memory is None else args.memory
    with audit_keys(args.path, delivered=groups or None, memory_bytes=memory_bytes) as found:
        for event in found.recovery:
            output.note(f"recovery: {event.kind}: {event.path}: {event.detail}")
        _say_figures(args, found)
        if args.undelivered:
            for group in found.groups:
                for row in islice(_undelivered(found, group), args.limit):
                    _say_key(row, as_json=args.json)
        return Exit.OK if found.ok else Exit.FAILED


# --- what was delivered -------------------------------------------------------------------------------------------


def _groups(args: Args, places: Sequence[Place]) -> dict[str, Positions]:
    """Return the delivered offsets that the options give: group -> topic -> partition -> offset."""
    from seglog.topic.delivered import by_group, delivered_from_json, read_checkpoint

    said: list[tuple[str, Positions]] = []
    if args.delivered is not None:
        delivered = delivered_from_json(Path(args.delivered).read_text(encoding="utf-8"), args.delivered)
        said += by_group(delivered, [place.key for place in places]).items()
    said += [(name, _offsets(text, places)) for name, text in _named(args.group, "--group")]
    said += [(name, read_checkpoint(directory)) for name, directory in _named(args.checkpoint, "--checkpoint")]
    groups = dict(said)
    if len(groups) < len(said):
        raise InvalidArgument("the offsets of one group are given twice; give each group once")
    return groups


def _named(words: Sequence[str], option: str) -> Iterator[tuple[str, str]]:
    for word in words:
        name, equals, text = word.partition("=")
        if not (name and equals and text):
            raise InvalidArgument(f"{option} is {word!r}; write NAME=..., such as billing=1200")
        yield name, text


def _offsets(text: str, places: Sequence[Place]) -> Positions:
    from seglog.topic.positions import from_json

    if not (text.isascii() and text.isdecimal()):
        return from_json(text, "--group")
    if len(places) > 1:
        raise InvalidArgument(f"--group gives one offset for {len(places)} logs; give JSON with topics and partitions")
    return {places[0].topic: {places[0].partition: int(text)}}


# --- what is shown ------------------------------------------------------------------------------------------------


def _say_figures(args: Args, found: KeyAudit) -> None:
    if args.json:
        output.say_json({"ok": found.ok, "logs": output.plain(found.logs)})
        return
    totals = [[f"{name}/{number}", *figures] for name, number, *figures in _log_figures(found)]
    output.say(*_table(["log", "records", "tombstones", "keys", "live keys"], totals))
    if not found.groups:
        return
    heads = ["group", "log", "delivered", "records behind", "keys behind"]
    output.say("", *_table(heads, list(_group_figures(found)), words=2), "")
    behind = found.total("undelivered_keys")
    output.say(f"{format_count(behind, 'key')} undelivered" if behind else "ok")


def _log_figures(found: KeyAudit) -> Iterator[list[Any]]:
    for log in found.logs:
        yield [log.topic, log.partition, *(f"{n:,}" for n in (log.records, log.tombstones, log.keys, log.live_keys))]


def _group_figures(found: KeyAudit) -> Iterator[list[str]]:
    for number, name in enumerate(found.groups):
        for log in found.logs:
            group = log.groups[number]
            figures = (group.delivered, group.undelivered_records, group.undelivered_keys)
            yield [name, f"{log.topic}/{log.partition}", *(f"{figure:,}" for figure in figures)]


def _table(heads: list[str], rows: list[list[str]], *, words: int = 1) -> list[str]:
    """Return lines with columns below their heads: the first `words` columns left-aligned, numbers right-aligned."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if number < words else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [heads, *rows]
    ]


def _undelivered(found: KeyAudit, group: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a group's undelivered keys; the key is encoded as in NDJSON."""
    for batch in found.undelivered(group):
        for row in batch.to_pylist():
            yield row | {"key": encode_bytes(row["key"])}


def _say_key(row: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.say_json(row)
        return
    last = "never delivered" if row["delivered"] is None else f"delivered {row['delivered']}"
    kind = ", a tombstone" if row["tombstone"] else ""
    where = f"{row['topic']}/{row['partition']}"
    key = json.dumps(row["key"], ensure_ascii=False)  # quoted, so that no byte of it can control the terminal
    output.say(f"{row['group']}  {where}  {key}  appended {row['appended']}{kind}, {last}")


COMMANDS = (
    Command(
        "audit",
        _audit,
        [
            argument("path", type=LocalPath(), help="a log, a topic, or a directory of topics"),
            option(
                "--delivered",
                metavar="FILE",
                type=File(),
                help='the offsets of all groups, as JSON {"group": {"topic": {"0": 23}}}',
            ),
            option(
                "--group",
                metavar="NAME=OFFSETS",
                multiple=True,
                help='the offsets of one group: JSON {"topic": {"0": 23}}, or a number if PATH is one log; repeatable',
            ),
            option(
                "--checkpoint",
                metavar="NAME=DIR",
                multiple=True,
                help="the offsets of one group, from the checkpoint of a streaming query; repeatable",
            ),
            flag("--undelivered", help="list the keys whose latest record a group has not received"),
            option(
                "--limit", metavar="N", type=parse_count, help="list at most this many keys of each group; default: all"
            ),
            option(
                "--memory",
                metavar="SIZE",
                type=parse_size,
                help="memory for keys, such as 64MiB; if they do not fit, the logs are read several times; "
                "default: 256MiB",
            ),
        ],
        story=(
            "Takes the offset (exclusive) up to which each group received each partition; a partition that is not\n"
            "named counts as not received. Exits with code 1 if a group has not received the latest record of a\n"
            "key, or a record is damaged. A standalone log is partition 0 of a topic with its directory's name.\n"
            "--json prints one line of figures, then one line for each listed key."
        ),
        examples=[
            "seglog audit orders",
            "seglog audit orders --delivered groups.json --undelivered --limit 10",
            "seglog audit orders/0 --group billing=1200",
            """seglog audit topics --group 'billing={"orders": {"0": 1200, "1": 1180}}'""",
            "seglog audit orders --checkpoint billing=checkpoints/billing --json",
        ],
    ),
)
