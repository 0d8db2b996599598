"""The exit codes of the program, and errors as one line or a JSON object.

Knows the error tree, not what the commands do.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from seglog import errors
from seglog.terminal.units import format_count

if TYPE_CHECKING:
    from seglog.log.log import Log


class Exit(IntEnum):
    """Every exit code of the program, with its meaning for a script."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Exit:
        """Make the member an int with its meaning, from which `--help` is generated."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    OK = 0, "success (also if the reader of standard output closed it, as `| head` does)"
    FAILED = 1, "the log is damaged, a check failed, or a question was answered with no"
    USAGE = 2, "the command line or the input is invalid; the error reports what was appended"
    NOT_FOUND = 3, "there is no such log, topic, group or file, or the path is not a log"
    LOCKED = 4, "another process writes to the log or has changed it, or the server is busy; retry later"
    OUT_OF_RANGE = 5, "the log does not hold this offset, or no longer holds it"
    IO = 6, "an I/O error, a failed sync, or the server cannot be reached"
    VERSION = 7, "the log was written by a newer version of seglog"
    BUG = 70, "a bug in seglog; run again with --traceback and report it"
    INTERRUPTED = 130, "interrupted (Ctrl-C)"


# The first match counts: a class precedes its bases.
_EXITS: tuple[tuple[tuple[type[BaseException], ...], Exit], ...] = (
    ((KeyboardInterrupt,), Exit.INTERRUPTED),
    ((errors.CorruptRecord, errors.CorruptLog, errors.CopyStopped), Exit.FAILED),
    ((errors.LogNotFound, errors.NotALog, errors.TopicNotFound, errors.GroupNotFound), Exit.NOT_FOUND),
    ((errors.LogLocked, errors.PlanStale, errors.Busy, errors.ArchiveFenced), Exit.LOCKED),
    ((errors.OffsetError, errors.LogTruncated), Exit.OUT_OF_RANGE),
    ((errors.FormatVersionError,), Exit.VERSION),
    ((errors.LogPoisoned, errors.LogReadOnly, errors.StorageError, errors.LogClosed), Exit.IO),
    ((errors.ConnectionFailed, errors.ServerError), Exit.IO),
    ((errors.SeglogError,), Exit.USAGE),
    ((FileNotFoundError,), Exit.NOT_FOUND),
    ((OSError,), Exit.IO),
)


def exit_of(error: BaseException) -> Exit:
    """Return the exit code for an error."""
    for classes, code in _EXITS:
        if isinstance(error, classes):
            return code
    return Exit.BUG


def message_of(error: BaseException) -> str:
    """Return an error as one line: its message, then its notes, which report what was done before it."""
    if isinstance(error, KeyboardInterrupt):
        text = "interrupted"
    elif isinstance(error, OSError) and error.strerror and error.filename:
        text = f"{error.filename}: {error.strerror}{_similar(error)}"
    elif exit_of(error) is Exit.BUG:
        text = f"internal error: {type(error).__name__}: {error}; run again with --traceback and report it"
    else:
        text = str(error) or type(error).__name__
    return " ".join("; ".join([text, *getattr(error, "__notes__", ())]).split())


def _similar(error: OSError) -> str:
    """Return a question that names a file beside a missing log, if the name is likely a misspelling of it, else ""."""
    if not isinstance(error, errors.LogNotFound):
        return ""
    from difflib import get_close_matches  # noqa: PLC0415 - only for this error

    place = Path(str(error.filename))
    try:
        there = [one.name for one in place.parent.iterdir() if not one.name.startswith(".")]
    except OSError:
        return ""
    close = get_close_matches(place.name, there, n=1, cutoff=0.7)
    return f"; did you mean {str(place.parent / close[0])!r}?" if close and close[0] != place.name else ""


def json_of(error: BaseException) -> str:
    """Return the error as a JSON object: error, message, exit, retriable, and where it happened."""
    fields: dict[str, object] = {
        "error": type(error).__name__,
        "message": message_of(error),
        "exit": int(exit_of(error)),
        "retriable": bool(getattr(error, "retriable", False)),
    }
    if isinstance(error, OSError) and error.filename is not None:
        fields["path"] = str(error.filename)
    for name in ("offset", "next_offset", "lowest_offset", "path", "position", "size", "limit", "topic", "group"):
        value = getattr(error, name, None)
        if value is not None:
            fields[name] = value if isinstance(value, int) else str(value)
    return json.dumps(fields)


@contextlib.contextmanager
def saying_what_went_in(log: Log) -> Iterator[None]:
    """Add to any error how many records had been appended before it."""
    first = log.next_offset
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        count = log.next_offset - first
        span = f": offsets {first} to {first + count - 1}" if count else ""
        error.add_note(f"{format_count(count, 'record')} appended before that{span}")
        raise


def exit_table() -> str:
    """Return the exit codes as lines for the help text."""
    return "\n".join(f"  {code.value:>3}  {code.meaning}" for code in Exit)
