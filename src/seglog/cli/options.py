"""What commands share on the command line: how one is declared, and the options that make a log's config.

A command is declared with its summary, its story, examples and the function that runs it; a test holds every
one to that. Only `config_from` opens a log: it reads the stored config, to change no more than was said.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING, Any

import seglog
from seglog.config import LogConfig
from seglog.errors import LogNotFound
from seglog.terminal.units import parse_count, parse_delimiter, parse_duration, parse_offset, parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def parse_share(text: str) -> float:
    """Return a share between 0 and 1."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share; write a number between 0 and 1") from None


Commands = Any  # argparse names the type of `add_subparsers` with an underscore

# option, name in LogConfig, parser, what it shows as a value, help
_CONFIG: tuple[tuple[str, str, Callable[[str], object], str, str], ...] = (
    ("--segment-bytes", "segment_bytes", parse_size, "SIZE", "roll a segment at this size; default 1GiB"),
    (
        "--segment-overflow-bytes",
        "segment_overflow_bytes",
        parse_size,
        "SIZE",
        "how far one record may pass it; default: half of it",
    ),
    ("--segment-age", "segment_age", parse_duration, "DURATION", "roll a segment at this age, such as 15m"),
    (
        "--index-interval-bytes",
        "index_interval_bytes",
        parse_size,
        "SIZE",
        "store bytes between two entries of a sparse index; default 4096",
    ),
    (
        "--buffer-bytes",
        "buffer_bytes",
        parse_size,
        "SIZE",
        "hold single appends in memory up to this size: faster, lost if the process is killed; default 0",
    ),
    ("--flush-records", "flush_records", parse_count, "N", "sync to disk after every N records"),
    ("--flush-interval", "flush_interval", parse_duration, "DURATION", "sync to disk at least this often"),
    (
        "--initial-offset",
        "initial_offset",
        parse_offset,
        "OFFSET",
        "the first offset of a log that is created",
    ),
    (
        "--open-segments-max",
        "open_segments_max",
        parse_count,
        "N",
        "segments kept open at a time; default 64",
    ),
    (
        "--retention-bytes",
        "retention.bytes",
        parse_size,
        "SIZE",
        "keep about this many bytes: older segments go when one rolls, and at `expire`",
    ),
    (
        "--retention-age",
        "retention.age",
        parse_duration,
        "DURATION",
        "keep sealed segments this long: older ones go when one rolls, and at `expire`",
    ),
)
_KEYED: tuple[tuple[str, str, Callable[[str], object], str, str], ...] = (
    (
        "--unkeyed",
        "retention.unkeyed",
        str,
        "reject|keep",
        "records without a key: reject them (the default; old ones go), or keep them",
    ),
    (
        "--delete-retention",
        "retention.delete_retention",
        parse_duration,
        "DURATION",
        "how long a tombstone stays after the first compaction that saw it; default 1d",
    ),
    (
        "--min-compaction-lag",
        "retention.min_compaction_lag",
        parse_duration,
        "DURATION",
        "compact no segment that was sealed less than this ago; default 0",
    ),
    (
        "--max-compaction-lag",
        "retention.max_compaction_lag",
        parse_duration,
        "DURATION",
        "a compaction is due when a segment has waited so long; an active one then rolls",
    ),
    (
        "--min-dirty-ratio",
        "retention.min_dirty_ratio",
        parse_share,
        "SHARE",
        "a compaction is due when more than this share (0 to 1) is dirty; default 0.5",
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
_COMPACT = "retention.compact"


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    summary: str,
    story: str = "",
    examples: Sequence[str],
) -> argparse.ArgumentParser:
    """Declare a command: one line for the list, a story and examples for its help, and what runs it."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.\n\n{story}".strip(),
        epilog="examples:\n" + "\n".join(f"  {example}" for example in examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="results on stdout and errors on stderr as JSON objects")
    parser.add_argument(
        "--traceback",
        action="store_true",
        help="show Python's trace of an error (or set SEGLOG_TRACEBACK=1)",
    )
    parser.set_defaults(run=run)
    return parser


def add_log(parser: argparse.ArgumentParser) -> None:
    """Add the positional LOG."""
    parser.add_argument("log", metavar="LOG", help="the log's directory")


def add_durable(parser: argparse.ArgumentParser) -> None:
    """Add --durable, the reader's choice of what to see."""
    parser.add_argument(
        "--durable",
        dest="expose",
        action="store_const",
        const="durable",
        default="appended",
        help="show only records known to be on disk, not all that were appended",
    )


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add --yes, for commands that take something away."""
    parser.add_argument("--yes", action="store_true", help="do not ask; needed where there is no terminal")


def add_force(parser: argparse.ArgumentParser) -> None:
    """Add --force, for commands that write a file."""
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add --quiet, for commands that take their time."""
    parser.add_argument("--quiet", action="store_true", help="no progress bar (shown on a terminal only), no counts")


def add_delimiter(parser: argparse.ArgumentParser, what: str) -> None:
    """Add --delimiter and --null; `what` says what they stand between."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--delimiter",
        metavar="TEXT",
        type=parse_delimiter,
        default=b"\n",
        help=rf"{what}; \n \t \r \0 and \\ are understood; default: a newline",
    )
    group.add_argument(
        "--null",
        dest="delimiter",
        action="store_const",
        const=b"\0",
        help="the same as --delimiter '\\0', for xargs -0 and values that hold newlines",
    )


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the options of a log's config."""
    group = parser.add_argument_group(
        "config (kept with the log: give it once; SIZE as 512, 64MiB, 1GB; DURATION as 90s, 15m, 7d)"
    )
    for option, name, parse, metavar, text in _CONFIG:
        group.add_argument(option, dest=name, metavar=metavar, type=parse, help=text)
    _add_keyed(parser)


def add_retention(parser: argparse.ArgumentParser) -> None:
    """Add those of these options that say what a log keeps."""
    group = parser.add_argument_group("what is kept (SIZE as 512, 64MiB, 1GB; DURATION as 90s, 15m, 7d)")
    for option, name, parse, metavar, text in _CONFIG:
        if name.startswith(_RETENTION):
            group.add_argument(option, dest=name, metavar=metavar, type=parse, help=text)
    _add_keyed(parser)


def _add_keyed(parser: argparse.ArgumentParser) -> None:
    keyed = parser.add_argument_group("config of a log that is compacted by key (see `seglog compact`)")
    keyed.add_argument(
        "--compact",
        dest=_COMPACT,
        action=argparse.BooleanOptionalAction,
        help="keep of every key its latest record: `seglog compact` lets go of the others",
    )
    for option, name, parse, metavar, text in _KEYED:
        keyed.add_argument(option, dest=name, metavar=metavar, type=parse, help=text)


def config_from(args: argparse.Namespace) -> LogConfig | None:
    """Return the log's stored config with what the options change in it, or None where they change nothing.

    Options of a log that does not exist yet change the defaults. ConfigError where they cannot be.
    """
    names = (_COMPACT, *(name for _, name, *_ in (*_CONFIG, *_KEYED)))
    said = {name: getattr(args, name) for name in names if getattr(args, name, None) is not None}
    if not said:
        return None
    stored = _stored_config(args.log)
    kept = {name.removeprefix(_RETENTION): said.pop(name) for name in list(said) if name.startswith(_RETENTION)}
    if "segment_bytes" in said:
        said.setdefault("segment_overflow_bytes", None)  # the default follows segment_bytes
    return dataclasses.replace(stored, **said, retention=dataclasses.replace(stored.retention, **kept))


def _stored_config(path: str) -> LogConfig:
    try:
        with seglog.open(path, mode="r") as log:
            return log.config
    except LogNotFound:
        return LogConfig()
