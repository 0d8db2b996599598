"""`backup`: a consistent copy of a log, a topic or a directory of topics."""

from __future__ import annotations

from dataclasses import asdict

from seglog.cli.frame import Args, Command, argument, flag
from seglog.cli.location import LocalPath
from seglog.cli.lock_wait import WAIT, patiently
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, format_size


def _backup(args: Args) -> int:
    from seglog.topic.backup import backup

    report = patiently(lambda: backup(args.place, args.dest, share=not args.copy), args.wait)
    if args.json:
        output.say_json(asdict(report))
    else:
        output.say(
            f"{format_count(report.logs, 'log')}, {format_count(report.segments, 'segment')}: {report.kept} already "
            f"present, {report.shared} shared, {format_size(report.copied)} copied to {args.dest}"
        )
    return Exit.OK


COMMANDS = (
    Command(
        "backup",
        _backup,
        [
            argument("place", help="a log's directory, a topic, or a directory of topics", type=LocalPath()),
            argument("dest", help="the directory of the copy; a later backup to it adds what is new", type=LocalPath()),
            flag("--copy", help="copy sealed segments instead of sharing their bytes with the log"),
            WAIT,
        ],
        story=(
            "Works while another process writes; the copy opens and verifies. On the log's own file system the copy\n"
            "shares the bytes of sealed segments (hard links): no extra space, but one bad disk block damages both."
        ),
        examples=["seglog backup orders /backup/orders", "seglog backup shop /backup/shop --copy"],
    ),
)
