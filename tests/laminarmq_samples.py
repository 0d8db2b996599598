"""The logs in tests/data/laminarmq, which laminarmq itself wrote, and what it was given and answered."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from seglog.storage import MemoryStorage

DATA = Path(__file__).parent / "data" / "laminarmq"
NAMES = sorted(path.name for path in DATA.iterdir() if path.is_dir())
CLOSED = [name for name in NAMES if not name.startswith("killed")]
KILLED_VALUE_BYTES = 20
KILLED_KEPT = 511  # what its index buffer of 8 KiB had flushed: 512 entries, including the base

Told = list[tuple[int, bytes, bytes]]


def told(name: str) -> Told:
    """Return (offset, metadata, value) of every record that should be there."""
    lines = (DATA / f"{name}.txt").read_text().splitlines()
    fields = [line.split(" ") for line in lines]
    return [(int(index), bytes.fromhex(meta[1:]), bytes.fromhex(value[1:])) for index, meta, value in fields]


def kept_when_killed() -> Told:
    """Return what the logs of 20-byte values that were killed still hold."""
    return [(n, b"", bytes([n % 256]) * KILLED_VALUE_BYTES) for n in range(KILLED_KEPT)]


def files_of(name: str) -> dict[str, bytes]:
    """Return the files of a log: name -> bytes."""
    return {path.name: path.read_bytes() for path in (DATA / name).iterdir()}


def stored(files: dict[str, bytes]) -> MemoryStorage:
    """Return a directory of these files."""
    storage = MemoryStorage()
    storage.make([])
    for name, data in files.items():
        storage.create(name).pwrite(data, 0)
    return storage


def put(files: dict[str, bytes], directory: Path) -> Path:
    """Write these files into a new directory."""
    directory.mkdir()
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return directory


def segment_of(values: Sequence[bytes]) -> dict[str, bytes]:
    """Return the files of a segment of these values from 0 on, as laminarmq would write them, of any size."""
    index, store, position = [bytes(16)], [], 0
    for number, value in enumerate(values):
        record = struct.pack("<IBI", 5, 1, number) + value
        index.append(struct.pack("<QII", zlib.crc32(record), len(record), position))
        store.append(record)
        position += len(record)
    return {"0.index": b"".join(index), "0.store": b"".join(store)}
