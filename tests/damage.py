"""Damage to files: bits are turned over, and no byte is written, for a random one may be the written one already."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from seglog.storage import File


def flip(path: Path, position: int, bits: int = 1) -> None:
    """Turn bits of one byte over, in the file itself, which may be open. A negative position counts from the end."""
    with path.open("r+b") as file:
        file.seek(position, 0 if position >= 0 else 2)
        (byte,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte ^ bits]))


def flip_in(file: File, position: int, bits: int = 1) -> None:
    """Turn bits of one byte of a storage's file over."""
    (byte,) = file.pread(1, position)
    file.pwrite(bytes([byte ^ bits]), position)
