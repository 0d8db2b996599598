"""`info` of a topic, or of a topic or partition on a server: one line for each partition."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import seglog
from seglog.cli import segment_drawing
from seglog.cli.config_options import changed_options, changed_part
from seglog.cli.frame import Args
from seglog.cli.location import Local, Remote, client_for
from seglog.cli.options import expose_from, tables_text
from seglog.cli.topic_options import table
from seglog.config import LogConfig
from seglog.errors import InvalidArgument
from seglog.log.info import SegmentInfo
from seglog.policies import Policies
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, format_size

if TYPE_CHECKING:
    from seglog.client.models import SegmentState


@dataclass(frozen=True, slots=True)
class _Part:
    """One partition."""

    partition: int
    lowest_offset: int
    next_offset: int
    durable_offset: int
    records: int
    bytes: int
    segments: Sequence[SegmentInfo]
    table_offset: int | None = None
    damage: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Facts:
    """A topic. place: its path or URL."""

    place: str
    name: str
    id: str
    config: LogConfig
    policies: Policies
    parts: list[_Part]


def topic_info(args: Args, place: Local | Remote) -> int:
    """Print the figures of a topic. Raises InvalidArgument for --garbage, which needs one log."""
    if args.garbage:
        raise InvalidArgument("--garbage works on one log: give a partition's directory")
    facts = _remote(args, place) if isinstance(place, Remote) else _local(args, place)
    code = Exit.FAILED if any(part.damage for part in facts.parts) else Exit.OK
    if args.json:
        output.say_json(_plain(facts, segments=args.segments))
        return code
    glyphs = segment_drawing.UNICODE if output.unicode_output() else segment_drawing.ASCII
    output.say(*_summary(facts, glyphs))
    if args.segments:
        width = shutil.get_terminal_size().columns
        for part in facts.parts:
            output.say("", f"partition {part.partition}", *segment_drawing.segment_lines(part.segments, width, glyphs))
    return code


def _local(args: Args, place: Local) -> _Facts:
    assert place.topic is not None  # noqa: S101 - only called for topics
    with ExitStack() as resources:
        topic = resources.enter_context(seglog.Topic.open(place.topic, mode="r"))
        parts = []
        for number in range(topic.partitions):
            log = resources.enter_context(seglog.open(place.topic / str(number), mode="r", expose=expose_from(args)))
            bounds = (log.lowest_offset, log.next_offset, log.durable_offset)
            count = sum(segment.records for segment in log.segments)
            damage = log._visible_damage()
            parts.append(_Part(number, *bounds, count, log.size, log.segments, log.table_offset, damage))
        return _Facts(place.path, topic.name, topic.id, topic.partition(0).config, topic.policies, parts)


def _remote(args: Args, place: Remote) -> _Facts:
    with client_for(args, place) as client:
        topic = client.topic(place.topic)
        info = topic.info()
        numbers = range(info.partitions) if place.partition is None else [place.partition]
        parts = []
        for number in numbers:
            state, segments = topic.partition(number)
            bounds = (state.lowest_offset, state.next_offset, state.durable_offset)
            infos = tuple(map(_segment, segments))
            parts.append(_Part(number, *bounds, sum(one.records for one in infos), state.bytes, infos))
        return _Facts(place.url, info.name, info.id, info.config, info.policies, parts)


def _segment(state: SegmentState) -> SegmentInfo:
    """Convert a server's segment state; the client does not have tombstones."""
    return SegmentInfo(
        base_offset=state.base_offset,
        next_offset=state.next_offset,
        bytes=state.bytes,
        records=state.records,
        tombstones=0,
        min_timestamp=state.min_timestamp,
        max_timestamp=state.max_timestamp,
        created=0,
        sealed_at=state.sealed_at,
        dense=state.dense,
        name=str(state.file),
        codec=state.codec,
        plain_bytes=state.plain_bytes,
    )


def _plain(facts: _Facts, *, segments: bool) -> dict[str, Any]:
    parts = [output.plain(part) for part in facts.parts]
    return {
        "place": facts.place,
        "topic": facts.name,
        "id": facts.id,
        "records": sum(part.records for part in facts.parts),
        "bytes": sum(part.bytes for part in facts.parts),
        "config": facts.config.to_json(),
        "policies": asdict(facts.policies),
        "partitions": [part if segments else part | {"segments": len(part["segments"])} for part in parts],
    }


def _summary(facts: _Facts, glyphs: segment_drawing.Glyphs) -> list[str]:
    records, size = sum(part.records for part in facts.parts), sum(part.bytes for part in facts.parts)
    held = f"{format_count(records, 'record')}, {format_size(size)} in {format_count(len(facts.parts), 'partition')}"
    policies = {f"policies.{name}": value for name, value in changed_part(facts.policies).items()}
    changed = changed_options(facts.config) | policies
    config = f" {glyphs.mark} ".join(f"{name} {value}" for name, value in changed.items())
    rows: list[tuple[object, ...]] = [
        (
            part.partition,
            part.lowest_offset,
            part.next_offset,
            part.durable_offset,
            part.records,
            format_size(part.bytes),
            len(part.segments),
        )
        for part in facts.parts
    ]
    heads = ("partition", "lowest", "next", "durable", "records", "size", "segments")
    offsets = {str(part.partition): part.table_offset for part in facts.parts if part.table_offset is not None}
    lines = [("topic", f"{facts.name} at {facts.place}"), ("holds", held), ("config", config)]
    lines.append(("tables", tables_text(offsets)))
    damage = [f"partition {part.partition}: {text}" for part in facts.parts for text in part.damage]
    lines += [("DAMAGED", f"{text}; `seglog verify` shows all damage") for text in damage]
    return [*(f"{name:<10}{text}" for name, text in lines if text), "", *table(heads, rows)]
