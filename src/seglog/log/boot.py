"""Which run of the operating system this is: after another one, what was not synced may be lost without a trace."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path

_LINUX = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot_id() -> str:
    """Return a name of the present run of the system, "" where there is none to be had."""
    with suppress(OSError, UnicodeDecodeError):
        return _LINUX.read_text(encoding="ascii").strip()
    return ""
