"""Parameters that several commands share, and the options that make a log's config.

Only `config_from` opens a log, to read the stored config and change only the fields that were given.
"""

from __future__ import annotations

import dataclasses
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable
from typing import Any

import seglog
from seglog.cli.frame import Args, File, Option, argument, flag, option, refuse_together
from seglog.cli.location import LocalPath
from seglog.config import Expose, LogConfig
from seglog.errors import LogNotFound
from seglog.terminal.units import (
    parse_count,
    parse_delimiter,
    parse_duration,
    parse_offset,
    parse_size,
    typed_duration,
    typed_size,
)


def parse_switch(text: str) -> bool:
    """Return whether it is yes."""
    if text not in ("yes", "no"):
        raise ArgumentTypeError(f"{text!r} is neither yes nor no")
    return text == "yes"


def parse_share(text: str) -> float:
    """Return a share between 0 and 1."""
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number between 0 and 1") from None


# option, name in LogConfig, parser, metavar, help
_CONFIG: tuple[tuple[str, str, Callable[[str], object], str, str], ...] = (
    ("--segment-bytes", "segment_bytes", parse_size, "SIZE", "roll a segment at this size; default 1GiB"),
    (
        "--segment-overflow-bytes",
        "segment_overflow_bytes",
        parse_size,
        "SIZE",
        "how far a single record may exceed it; default: half of it",
    ),
    ("--segment-age", "segment_age", parse_duration, "DURATION", "roll a segment after this time, such as 15m"),
    (
        "--index-interval-bytes",
        "index_interval_bytes",
        parse_size,
        "SIZE",
        "bytes of records between two entries of a sparse index; default 4096",
    ),
    (
        "--buffer-bytes",
        "buffer_bytes",
        parse_size,
        "SIZE",
        "buffer single appends in memory up to this size: faster, but lost if the process is killed; default 0",
    ),
    ("--flush-records", "flush_records", parse_count, "N", "sync to disk after every N records"),
    ("--flush-interval", "flush_interval", parse_duration, "DURATION", "sync to disk at least this often"),
    (
        "--initial-offset",
        "initial_offset",
        parse_offset,
        "OFFSET",
        "the first offset of a new log",
    ),
    (
        "--open-segments-max",
        "open_segments_max",
        parse_count,
        "N",
        "how many segments to keep open; default 64",
    ),
    (
        "--compression",
        "compression",
        str,
        "none|lz4|zstd",
        "the codec of sealed segments: a server applies it by itself, else `seglog compress` does; default none",
    ),
    (
        "--allocate-bytes",
        "allocate_bytes",
        parse_size,
        "SIZE",
        "write zeros of this size ahead of single appends, such as 1MiB: syncs after each are faster; default 0",
    ),
    (
        "--retention-bytes",
        "retention.bytes",
        parse_size,
        "SIZE",
        "keep about this many bytes: older segments are deleted when one rolls, and by `expire`",
    ),
    (
        "--retention-age",
        "retention.age",
        parse_duration,
        "DURATION",
        "keep sealed segments this long: older ones are deleted when one rolls, and by `expire`",
    ),
    (
        "--retention-expire",
        "retention.expire",
        parse_switch,
        "yes|no",
        "no: age and size are kept, but delete nothing, as with Kafka's cleanup.policy=compact",
    ),
    (
        "--retention-after",
        "retention.after",
        str,
        "none|table",
        "table: delete and compact nothing before the tables of `seglog table sync` have it; default none",
    ),
)
_KEYED: tuple[tuple[str, str, Callable[[str], object], str, str], ...] = (
    (
        "--unkeyed",
        "retention.unkeyed",
        str,
        "reject|keep",
        "reject records without a key (the default; older ones are removed), or keep them",
    ),
    (
        "--delete-retention",
        "retention.delete_retention",
        parse_duration,
        "DURATION",
        "how long a tombstone stays after the first compaction that read it; default 1d",
    ),
    (
        "--min-compaction-lag",
        "retention.min_compaction_lag",
        parse_duration,
        "DURATION",
        "compact only segments sealed at least this long ago; default 0",
    ),
    (
        "--max-compaction-lag",
        "retention.max_compaction_lag",
        parse_duration,
        "DURATION",
        "compact at the latest when a segment is this old; the active one rolls for it",
    ),
    (
        "--min-dirty-ratio",
        "retention.min_dirty_ratio",
        parse_share,
        "SHARE",
        "compact when more than this share (0 to 1) is dirty; default 0.5",
    ),
    (
        "--dedupe-bytes",
        "retention.dedupe_bytes",
        parse_size,
        "SIZE",
        "memory for the keys of one compaction; default 128MiB",
    ),
)
_RETENTION = "retention."
ALTERED_ALONE = frozenset({"compression", "segment_age"})
"""What may change later and is not about what a log keeps."""
_COMPACT = "retention.compact"
_UNITS = "(SIZE as 512, 64MiB, 1GB; DURATION as 90s, 15m, 7d)"

LOG = argument("log", help="a log's directory, a topic (shop/orders), or a partition (shop/orders/0)", type=LocalPath())
PLACE = argument(
    "log",
    help="a log's directory, a topic (shop/orders), a partition (shop/orders/0), or one on a server "
    "(http://host:3000/orders)",
    type=File(),
)
YES = flag("--yes", help="do not ask; required without a terminal")
FORCE = flag("--force", help="replace the file if it exists")
QUIET = flag("--quiet", help="no progress bar (terminal only), no counts")
EXPOSE = (
    option(
        "--expose",
        choices=["appended", "durable"],
        help="appended: all records (the default); durable: only those that are synced to disk",
    ),
    flag("--durable", help="same as --expose durable"),
)


def delimiter_options(what: str) -> tuple[Option, Option]:
    """Return --delimiter and --null, to be read with `delimiter_from`; `what` describes what they separate."""
    return (
        option(
            "--delimiter",
            metavar="TEXT",
            type=parse_delimiter,
            help=rf"{what}; escapes: \n \t \r \0 \\; default: a newline",
        ),
        flag("--null", help="same as --delimiter '\\0', for xargs -0 and values that contain newlines"),
    )


def expose_from(args: Args) -> Expose:
    """Return what the options EXPOSE say."""
    refuse_together(args, "expose", "durable")
    return "durable" if args.durable or args.expose == "durable" else "appended"


def delimiter_from(args: Args) -> bytes:
    """Return the delimiter that the options of `delimiter_options` give."""
    refuse_together(args, "delimiter", "null")
    return b"\0" if args.null else b"\n" if args.delimiter is None else bytes(args.delimiter)


def config_options() -> list[Option]:
    """Return the options of a log's config."""
    heading = f"Config, stored with the log: give it once {_UNITS}"
    return [*_options(_CONFIG, heading), *_keyed_options()]


def alter_options() -> list[Option]:
    """Return the options that may change later: what a log keeps, its codec, and when its segments roll."""
    kept = [one for one in _CONFIG if one[1].startswith(_RETENTION)]
    stored = [one for one in _CONFIG if one[1] in ALTERED_ALONE]
    return [*_options(stored, f"Storage {_UNITS}"), *_options(kept, f"Retention {_UNITS}"), *_keyed_options()]


def _options(rows: Iterable[tuple[str, str, Callable[[str], object], str, str]], heading: str) -> list[Option]:
    return [
        option(name, metavar=metavar, type=parse, help=text, group=heading) for name, _, parse, metavar, text in rows
    ]


def _keyed_options() -> list[Option]:
    heading = "Config of a log compacted by key (see `seglog compact`)"
    compact = option(
        "--compact/--no-compact",
        help="keep the latest record of every key: `seglog compact` removes the others",
        group=heading,
    )
    return [compact, *_options(_KEYED, heading)]


def dest(name: str) -> str:
    """Return the name of an option in Args: segment_bytes for --segment-bytes."""
    return name.removeprefix("--").replace("-", "_")


def as_typed(name: str, value: object) -> str:
    """Return the value of a config field as a user would type it: 7d, 64 MiB."""
    for _option, field, parse, *_ in (*_CONFIG, *_KEYED):
        if name in (field, field.removeprefix(_RETENTION)) and isinstance(value, (int, float)):
            if parse is parse_switch:
                return "yes" if value else "no"
            if parse is parse_size:
                return typed_size(int(value))
            if parse is parse_duration:
                return typed_duration(value)
    return str(value)


def config_given(args: Args) -> dict[str, object]:
    """Return the config fields that were given; retention fields as `retention.age`."""
    names = {"compact": _COMPACT} | {dest(name): field for name, field, *_ in (*_CONFIG, *_KEYED)}
    return {field: getattr(args, name) for name, field in names.items() if getattr(args, name, None) is not None}


def config_from(args: Args) -> LogConfig | None:
    """Return the log's stored config with the given options applied, or None if none was given.

    The options of a new log change the defaults. Raises ConfigError for an invalid config.
    """
    return config_over(args, lambda: _stored_config(args.log))


def config_over(args: Args, stored_config: Callable[[], LogConfig]) -> LogConfig | None:
    """Return what `stored_config` returns with what the options change in it, or None where they change nothing."""
    said = config_given(args)
    if not said:
        return None
    stored = stored_config()
    kept: dict[str, Any] = {
        name.removeprefix(_RETENTION): said.pop(name) for name in list(said) if name.startswith(_RETENTION)
    }
    if "segment_bytes" in said:
        said.setdefault("segment_overflow_bytes", None)  # the default follows segment_bytes
    changed: dict[str, Any] = {**said, "retention": stored.retention.changed(kept)}
    return dataclasses.replace(stored, **changed)


def _stored_config(path: str) -> LogConfig:
    try:
        with seglog.open(path, mode="r") as log:
            return log.config
    except LogNotFound:
        return LogConfig()


def changed_options(config: LogConfig) -> dict[str, str]:
    """Return the options that differ from the defaults, with values as a user would type them: 7d, 1 GiB."""
    default = type(config)(segment_bytes=config.segment_bytes)
    shown = {"segment_bytes": typed_size(config.segment_bytes)}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if value == getattr(default, field.name) or field.name in shown:
            continue
        if field.name == "retention":
            kept = [(one.name, getattr(value, one.name)) for one in dataclasses.fields(value)]
            shown |= {
                f"retention.{name}": as_typed(name, one)
                for name, one in kept
                if one != getattr(default.retention, name)
            }
        else:
            shown[field.name] = as_typed(field.name, value)
    return shown


def tables_text(offsets: dict[str, int]) -> str:
    """Return what retention that waits for tables may delete; empty if it waits for none.

    offsets: partition ("" for a log) -> the offset before which tables have every record.
    """
    if not offsets:
        return ""
    if not any(offsets.values()):
        return "none yet, so nothing is deleted or compacted (retention.after): run `seglog table sync`"
    ends = ", ".join(f"{number}: {offset}" if number else str(offset) for number, offset in offsets.items())
    return f"complete up to offset {ends}; nothing later is deleted or compacted (retention.after)"
