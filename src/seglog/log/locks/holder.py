"""Which process holds a lock: it writes that into the locked file, where a process that is refused reads it.

    {"pid": 4242, "host": "web-1", "command": "seglog serve"}

Only the text of errors depends on it. The content is removed when the lock is released, and does not count if the
process that it names has ended. It is read without taking a lock: the holder may need that lock at the same moment.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from seglog.errors import SeglogError
from seglog.format.foreign import UNREADABLE
from seglog.storage import Lock, Storage
from seglog.visible import visible

UNKNOWN = "here or in another process"
_MOST_BYTES = 1000
_MOST_CHARACTERS = 80
_OWN_PROGRAM = "seglog"


def mark(lock: Lock) -> None:
    """Write into a locked file which process this is. A refused write (a full disk) is no reason not to go on."""
    values = {"pid": os.getpid(), "host": platform.node(), "command": _command()}
    with suppress(SeglogError):
        lock.write(json.dumps(values).encode() + b"\n")


def unmark(lock: Lock) -> None:
    """Remove what `mark` has written, before the lock is released."""
    with suppress(SeglogError):
        lock.write(b"")


def _command() -> str:
    """Return the name of the program; its arguments may be secret. Of our own program also the command."""
    words = sys.argv or [""]
    path = Path(words[0])
    name = path.parent.name if path.name == "__main__.py" else path.name
    if name == _OWN_PROGRAM and len(words) > 1 and words[1].isalpha():
        name = f"{name} {words[1]}"
    return name[:_MOST_CHARACTERS]


def described(places: Iterable[tuple[Storage, str]]) -> str:
    """Return as text which process holds the first of these files that names one: "by process 4242 (seglog serve)"."""
    for storage, name in places:
        found = _read(storage, name)
        if found is not None:
            return found
    return UNKNOWN


def _read(storage: Storage, name: str) -> str | None:
    """Return which process a file names, None where it names none that is alive, as far as that can be seen here."""
    with suppress(*UNREADABLE, SeglogError):
        if storage.identity(name) is None:
            return None
        file = storage.open(name)
        try:
            values = json.loads(file.pread(min(file.size(), _MOST_BYTES), 0))
        finally:
            file.close()
        return _text(int(values["pid"]), str(values["host"]), str(values["command"]))
    return None


def _text(pid: int, host: str, command: str) -> str | None:
    if host != platform.node():
        return f"by process {pid} ({visible(command[:_MOST_CHARACTERS])}) on {visible(host[:_MOST_CHARACTERS])}"
    if pid == os.getpid():
        return f"by this process ({pid}): use the object that has it, or close that one first"
    return f"by process {pid} ({visible(command[:_MOST_CHARACTERS])})" if _is_alive(pid) else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return pid > 0
