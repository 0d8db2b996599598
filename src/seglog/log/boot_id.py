"""Identify the run of the operating system: data that was not synced in an earlier run may be lost without a trace."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path

_LINUX = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot_id() -> str:
    """Return the identifier of the system's present run, "" if there is none."""
    with suppress(OSError, UnicodeDecodeError):
        return _LINUX.read_text(encoding="ascii").strip()
    return ""
