"""The `seglog` command. One module for each family of commands; their names are what you type.

    write     append                          transfer  import, export
    read      read, tail                      play      demo
    inspect   info                            options, selection, tables, ingest, draw, progress,
    care      verify, repair, truncate,       opened, brokers, verbs: what they share; what other programs share
              expire                          as well is in `seglog.terminal`
    keyed     compact, explain, pin           topics    topics
    audit     audit                           groups    groups

This module makes the parser, runs the command and turns whatever happens into an exit code and at most one
line on stderr. `seglog --help` loads only what declares commands: a function that runs one imports what it runs
with, logs and topics, pyarrow, numba and tqdm.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from typing import TYPE_CHECKING

import seglog
from seglog.cli import audit, care, groups, inspect, keyed, play, read, serve, topics, transfer, write
from seglog.terminal import output
from seglog.terminal.exits import Exit, exit_of, exit_table, json_of, message_of
from seglog.terminal.parser import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence

_STORY = "A durable segmented commit log: append at disk speed, read zero-copy as Arrow, feed Spark."
_EPILOG = """\
sizes:      512, 64MiB (1024), 1GB (1000)           durations:  90s, 15m, 1h30m, 7d; a bare number is seconds
times:      2024-05-01T12:00:00Z (UTC where no zone stands), or int microseconds since the epoch
offsets:    whole numbers from 0; --stop is exclusive

exit codes:
{exits}

Every error is one line on stderr; with --json it is a JSON object with "error", "message", "exit",
and where it has them "offset", "path", "position".

examples:
  seglog append orders 'hello' --key user-1
  seglog read orders 0
  seglog tail orders -f
  seglog info orders --segments
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole program."""
    parser = Parser(
        prog="seglog",
        description=_STORY,
        epilog=_EPILOG.format(exits=exit_table()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    version = f"seglog {seglog.__version__}"
    parser.add_argument("--version", action="version", version=version, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    for family in (write, read, inspect, care, keyed, audit, transfer, topics, groups, serve, play):
        family.add_parsers(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program with `argv` (default: the process's arguments) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(words)
        output.flush()
    except BrokenPipeError:  # `| head` had enough: no error
        output.silence_stdout()
        return Exit.OK
    except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001 # the program's edge: everything becomes a code and a line
        return _report(error, words)
    return code


def _run(words: list[str]) -> int:
    try:
        args = build_parser().parse_args(words)
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    return int(args.run(args))


def _report(error: BaseException, words: list[str]) -> Exit:
    """Say on stderr what went wrong, after whatever was printed before it, and return the exit code."""
    said = words[: words.index("--")] if "--" in words else words  # behind -- words are values
    try:
        output.flush()
    except OSError:
        output.silence_stdout()
    if "--traceback" in said or os.environ.get("SEGLOG_TRACEBACK", "0") not in ("", "0"):
        traceback.print_exception(error)
    if "--json" in said:
        print(json_of(error), file=sys.stderr)
    else:
        output.note(message_of(error))
    return exit_of(error)
