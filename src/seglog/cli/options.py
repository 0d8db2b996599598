"""Parameters that several commands share."""

from __future__ import annotations

from seglog.cli.frame import Args, File, Option, argument, flag, option, refuse_together
from seglog.cli.location import LocalPath
from seglog.config import Expose
from seglog.terminal.units import (
    parse_delimiter,
)

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


def dest(name: str) -> str:
    """Return the name of an option in Args: segment_bytes for --segment-bytes."""
    return name.removeprefix("--").replace("-", "_")


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
