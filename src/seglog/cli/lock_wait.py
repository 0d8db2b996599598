"""--wait: retry while another process holds a log or a directory of topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from seglog.cli.frame import option
from seglog.errors import LogLocked
from seglog.log.locks import wait
from seglog.terminal import output
from seglog.terminal.units import parse_duration, typed_duration

T = TypeVar("T")

WAIT = option(
    "--wait",
    metavar="DURATION",
    type=parse_duration,
    help="wait up to this long (10s, 15m) for another process that writes, then fail with exit code 4; default: 0",
)


def patiently(attempt: Callable[[], T], seconds: float | None) -> T:
    """Return what `attempt` returns; retry it for up to `seconds` while it raises LogLocked.

    That it waits, and for which process, is printed on stderr once.
    """
    notes: list[str] = []

    def noting() -> T:
        try:
            return attempt()
        except LogLocked as error:
            if seconds and not notes:
                what = error.held or str(error.strerror).partition(";")[0]
                notes.append(f"waiting up to {typed_duration(seconds)}: {error.filename}: {what}")
                output.note(notes[0])
            raise

    try:
        return wait.patiently(noting, seconds)
    except LogLocked as error:
        advice = "--wait 30s waits for that process" if seconds is None else f"waited {typed_duration(seconds)}"
        if error.held:  # instead of the advice for Python programs
            error.strerror = f"{error.held}; {advice}"
        else:
            error.add_note(advice)
        raise
