"""The `seglog` command: one module per family of commands, named after what you type.

    frame     how a command is declared and parsed      catalog   all commands, and the module that declares each
    write     append                          transfer  import, export
    read      read, tail                      consume   consume
    inspect   info (inspect_topic: of topics) completion, play: completion, demo
    mending   verify, repair                  care      truncate, expire
    copies    backup
    keyed     compact, explain, pin           audit     audit
    compress  compress
    topics    topics                          groups    groups
    serve     serve, token

    location                  what LOG names: a log, a partition, a topic, or one on a server
    source, sink              the same read and write interface for logs, topics and servers
    selection, filters        which records are read
    formats, tables, draw     how records and segments are printed
    ingest, rows, laminarmq   the input formats of `import`
    options, waiting, opened, brokers, verbs, progress: shared by several commands; what Spark's jobs share too is in
    `seglog.terminal`

This module runs a command and turns every outcome into an exit code and at most one line on stderr. `seglog --help`
imports no command; a command imports its dependencies (logs and topics, pyarrow, numba, tqdm) when it runs.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

import seglog
from seglog.cli.frame import Program, refusal
from seglog.errors import InvalidArgument
from seglog.terminal import output
from seglog.terminal.exits import Exit, exit_of, exit_table, json_of, message_of
from seglog.terminal.pandas_import import skip_pandas

if TYPE_CHECKING:
    from collections.abc import Sequence

_STORY = "A durable segmented commit log: append at disk speed, read zero-copy as Arrow, feed Spark."
_EPILOG = """\
LOG         a log's directory (orders), a topic (shop/orders: all partitions, merged by time), a partition
            (shop/orders/0), or one on a server: http://host:3000/orders[/0], or --url http://host:3000 orders[/0]
sizes:      512, 64MiB (1024), 1GB (1000)           durations:  90s, 15m, 1h30m, 7d; a bare number is seconds
times:      2024-05-01T12:00:00Z (UTC if no zone is given), '1h ago', now, today, yesterday, @seconds, microseconds
offsets:    whole numbers from 0, or -10: the tenth from the end; --stop is exclusive

Exit codes:
{exits}

Every error is one line on stderr; with --json it is a JSON object with "error", "message", "exit" and,
if known, "offset", "path", "position".

Examples:
  seglog append orders 'hello' --key user-1
  seglog read orders 0
  seglog tail orders -f
  seglog info orders --segments
  seglog consume http://127.0.0.1:3000/orders --group billing --follow
"""


def build_program() -> Program:
    """Return the whole program; each command is imported when it is used."""
    return Program(story=_STORY, epilog=_EPILOG.format(exits=exit_table()), version=f"seglog {seglog.__version__}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program with `argv` (default: the process's arguments) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None and words[:1] != ["demo"]:  # this is the process's program; the demo runs Spark, which needs pandas
        skip_pandas()
    try:
        code = _run(words)
        output.flush()
    except BrokenPipeError:  # the reader closed standard output, as `| head` does: not an error
        output.silence_stdout()
        return Exit.OK
    except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001 # every error becomes an exit code and one line
        return _report(error, words)
    return code


def _run(words: list[str]) -> int:
    if instruction := os.environ.get("_SEGLOG_COMPLETE"):
        from click.shell_completion import shell_complete

        return shell_complete(build_program(), {}, "seglog", "_SEGLOG_COMPLETE", instruction)
    program = build_program()
    try:
        with program.make_context("seglog", words) as context:
            return int(program.invoke(context))
    except click.exceptions.Exit as stop:  # --help and --version
        return stop.exit_code
    except click.ClickException as error:
        raise InvalidArgument(refusal(error)) from error


def _report(error: BaseException, words: list[str]) -> Exit:
    """Print the error on stderr, after any output already printed, and return the exit code."""
    said = words[: words.index("--")] if "--" in words else words  # words after -- are values
    try:
        output.flush()
    except OSError:
        output.silence_stdout()
    if "--traceback" in said or os.environ.get("SEGLOG_TRACEBACK", "0") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
    if "--json" in said:
        print(json_of(error), file=sys.stderr)
    else:
        output.note(message_of(error))
    return exit_of(error)
