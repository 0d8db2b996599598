"""Output of programs: bytes and lines on standard output, notes on stderr, files that appear when complete.

Everything goes to the binary layer of standard output, so that text and raw values keep their order, and a name that
the terminal cannot show is escaped instead of raising an error. Knows no command and no log.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from seglog.errors import InvalidArgument
from seglog.visible import visible

STANDARD = "-"
_LINES = "\n\t"


def stdout() -> BinaryIO:
    """Return the binary layer of standard output."""
    if sys.stdout is None:  # started with it closed, as in `>&-`
        raise InvalidArgument("standard output is closed")
    return cast(BinaryIO, sys.stdout.buffer)


def stdin() -> BinaryIO:
    """Return the binary layer of standard input."""
    if sys.stdin is None:
        raise InvalidArgument("standard input is closed")
    return cast(BinaryIO, sys.stdin.buffer)


def unicode_output() -> bool:
    """Return whether standard output can show more than ASCII."""
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"


def say(*lines: str) -> None:
    """Write lines of text to standard output; what would move or hide other text on a terminal is escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    stdout().write("".join(f"{visible(line, _LINES)}\n" for line in lines).encode(encoding, "backslashreplace"))


def say_json(value: object) -> None:
    """Write one JSON value as a line to standard output."""
    stdout().write(json.dumps(value, default=str).encode() + b"\n")


def note(text: str) -> None:
    """Write one line for people to stderr, apart from data."""
    if sys.stderr is not None:
        print(f"seglog: {visible(text, _LINES)}", file=sys.stderr)


def flush() -> None:
    """Flush standard output. Raises BrokenPipeError if its reader closed it, OSError if a device is full."""
    if sys.stdout is not None:
        sys.stdout.flush()


def silence_stdout() -> None:
    """Redirect standard output to the null device, so that the interpreter's last flush cannot fail."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        descriptor = sys.stdout.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)


def confirmed(question: str, *, yes: bool) -> bool:
    """Ask on the terminal; `yes` answers for the user. Raises InvalidArgument without a terminal."""
    if yes:
        return True
    if sys.stdin is None or sys.stderr is None or not sys.stdin.isatty():
        raise InvalidArgument(f"{question} There is no terminal to ask on: repeat with --yes")
    flush()
    print(f"{visible(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@contextlib.contextmanager
def target(path: str, *, force: bool) -> Iterator[BinaryIO]:
    """Open the file that a command writes; it appears under its name when it is complete, or not at all.

    `-` is standard output. A device or a pipe is written directly. Raises InvalidArgument for a directory, and for an
    existing file unless `force`, which replaces it atomically at the end.
    """
    if path == STANDARD:
        yield stdout()
        return
    final = Path(path).resolve()  # replace the target of a symlink, not the link
    if final.exists() and not final.is_file() and not final.is_dir():
        with final.open("wb") as device:
            yield device
        return
    _refuse_existing(final, path, force)
    from seglog.storage.system_calls import sync_descriptor  # noqa: PLC0415 - `seglog --help` needs no storage

    draft = final.with_name(f".{final.name}.{secrets.token_hex(4)}.part")
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            sync_descriptor(file.fileno())
        _refuse_existing(final, path, force)
        draft.replace(final)
    finally:
        draft.unlink(missing_ok=True)


def _refuse_existing(final: Path, path: str, force: bool) -> None:
    if final.is_dir():
        raise InvalidArgument(f"{path} is a directory; name a file")
    if final.exists() and not force:
        raise InvalidArgument(f"{path} exists; use --force to replace it")


def plain(value: Any) -> Any:
    """Convert dataclasses and sequences at any depth to plain values for JSON."""
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value
