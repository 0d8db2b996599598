"""`info`: what a log holds, its config, a drawing of its segments. Read-only."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import seglog
from seglog.cli import segment_drawing
from seglog.cli.commands.compact import due_text, garbage_of
from seglog.cli.config_options import changed_options
from seglog.cli.frame import Args, Command, flag
from seglog.cli.location import SERVER, Remote, locate
from seglog.cli.options import EXPOSE, PLACE, expose_from, tables_text
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, format_size, format_time

if TYPE_CHECKING:
    from seglog.log.info import SegmentInfo
    from seglog.log.log import Log


def _info(args: Args) -> int:
    place = locate(args)
    if isinstance(place, Remote) or (place.topic is not None and place.partition is None):
        from seglog.cli.commands.info_topic import topic_info

        return topic_info(args, place)
    drawn = args.segments or args.garbage
    with seglog.open(args.log, mode="r", expose=expose_from(args)) as log:
        segments = log.segments
        figures = _figures(log, segments)
        keyed = _keyed(log, exact=args.garbage) if log.config.retention.compact else {}
    code = Exit.FAILED if figures["damage"] else Exit.OK
    if args.json:
        garbage = {"garbage": {base: one.garbage for base, one in keyed.items()}} if args.garbage else {}
        output.say_json(output.plain({**figures, **garbage, "segments": segments if drawn else len(segments)}))
        return code
    glyphs = segment_drawing.UNICODE if output.unicode_output() else segment_drawing.ASCII
    output.say(*_summary(figures, len(segments), glyphs))
    if drawn:
        width = shutil.get_terminal_size().columns
        output.say("", *segment_drawing.segment_lines(segments, width, glyphs, keyed))
    return code


def _keyed(log: Log, *, exact: bool) -> dict[int, segment_drawing.Keyed]:
    """Return base offset -> compaction state of each segment."""
    shares = garbage_of(log, quiet=False).shares() if exact else {}
    return {
        one.base_offset: segment_drawing.Keyed(
            one.state, shares.get(one.base_offset) if exact else one.expected_garbage, exact
        )
        for one in log.standing().segments
    }


def _figures(log: Log, segments: Sequence[SegmentInfo]) -> dict[str, Any]:
    return {
        "path": str(log.path),
        "lowest_offset": log.lowest_offset,
        "next_offset": log.next_offset,
        "durable_offset": log.durable_offset,
        "records": sum(segment.records for segment in segments),
        "tombstones": sum(segment.tombstones for segment in segments),
        "bytes": log.size,
        "min_timestamp": min((one.min_timestamp for one in segments if one.min_timestamp is not None), default=None),
        "max_timestamp": max((one.max_timestamp for one in segments if one.max_timestamp is not None), default=None),
        "config": log.config.to_json(),
        "changed": changed_options(log.config),
        "standing": log.standing() if log.config.retention.compact else None,
        "pins": log.pins,
        "table_offset": log.table_offset,
        "damage": log._visible_damage(),
        "recovery": {"clean": log.recovery.clean, "events": log.recovery.events},
    }


def _summary(figures: dict[str, Any], segments: int, glyphs: segment_drawing.Glyphs) -> list[str]:
    end = figures["next_offset"]
    empty = end == figures["lowest_offset"]
    held = f"none, the next is {end}" if empty else f"{figures['lowest_offset']} {glyphs.to} {end - 1}"
    records = f"{figures['records']:,}"
    if figures["tombstones"]:
        records += f", {figures['tombstones']:,} of them tombstones"
    lines = [
        ("log", figures["path"]),
        ("offsets", held),
        ("on disk", _on_disk(figures, glyphs)),
        ("records", records),
        ("size", f"{format_size(figures['bytes'])} in {format_count(segments, 'segment')}"),
        ("times", _times(figures, glyphs)),
        ("config", f" {glyphs.mark} ".join(f"{name} {value}" for name, value in figures["changed"].items())),
        ("due", due_text(figures["standing"]) if figures["standing"] else ""),
        ("tables", tables_text({} if figures["table_offset"] is None else {"": figures["table_offset"]})),
        ("pins", f" {glyphs.mark} ".join(f"{name} {offset}" for name, offset in sorted(figures["pins"].items()))),
    ]
    events = figures["recovery"]["events"]
    lines.append(("recovery", "clean" if figures["recovery"]["clean"] else format_count(len(events), "event")))
    lines += [("", f"{event.kind} {event.path}: {event.detail}") for event in events]
    lines += [("DAMAGED", f"{text}; `seglog verify` shows all damage") for text in figures["damage"]]
    return [f"{name:<10}{text}" for name, text in lines if text]


def _on_disk(figures: dict[str, Any], glyphs: segment_drawing.Glyphs) -> str:
    durable = figures["durable_offset"]
    if durable < figures["next_offset"]:
        return f"up to {durable} (exclusive)"
    return "not all, see below" if figures["damage"] else f"all {glyphs.mark} durable offset {durable}"


def _times(figures: dict[str, Any], glyphs: segment_drawing.Glyphs) -> str:
    first, last = figures["min_timestamp"], figures["max_timestamp"]
    return "" if first is None else f"{format_time(first)} {glyphs.to} {format_time(last)}"


COMMANDS = (
    Command(
        "info",
        _info,
        [
            PLACE,
            flag("--segments", help="draw the segments, oldest first"),
            flag("--garbage", help="count what a compaction would remove, per segment"),
            *EXPOSE,
            *SERVER,
        ],
        story=(
            "--segments draws one line for each segment: offsets, a bar of its size to scale (light: tombstones),\n"
            "records, state and times, as far as the terminal is wide. In a log compacted by key the light part is\n"
            "what a compaction would remove: an estimate (~12%), or counted with --garbage, which reads all keys.\n"
            "A topic gets a line for each partition."
        ),
        examples=[
            "seglog info orders",
            "seglog info orders --segments",
            "seglog info orders --garbage",
            "seglog info orders --json | jq .records",
            "seglog info shop/orders",
            "seglog info http://127.0.0.1:3000/orders/0 --segments",
        ],
    ),
)
