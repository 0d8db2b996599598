"""laminarmq, called by the program in benchmarks/laminarmq: each side in its fastest mode.

Durability is the same within a figure. Batches and reads: neither side syncs, and segments are so large that none
rolls. laminarmq keeps up to 128 KiB of appended data in the process (lost on kill -9); our batches are written when
append_batch returns; our single appends also get a buffer of 128 KiB (buffer_bytes), in a process that has loaded the
kernels, like any process that has appended or read a batch. Both verify what they read. Of laminarmq's four storages
the fastest is used: for appends glommio's buffered files, for reads tokio's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import seglog
from benchmarks.scale import Scale
from benchmarks.timing import Figure, in_rounds, recycle, stopwatch
from seglog.log.laminarmq import open_laminarmq

PROGRAM = Path(__file__).parent / "laminarmq"
APPENDING, READING = "buffered", "random"
VALUE_BYTES = (12, 140, 560, 1120, 2940, 11_760)  # those of its own benchmark, and 12
BATCH_AIMS = {140: 10.0, 11_760: 2.0}
SINGLE_AIMS = {140: 0.5}
READ_AIMS = {140: 10.0}
BUFFER_BYTES = 128 * 1024
SEGMENT_BYTES = 2_000_000_000

Run = dict[str, Any]


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure values of every size; nothing if the program cannot be built or run."""
    program = _built()
    if program is None:
        return
    for value_bytes in VALUE_BYTES:
        yield from _Case(program, directory, scale, value_bytes).figures()


def _built() -> Path | None:
    """Build the program; if that is impossible, print why and return None."""
    if shutil.which("cargo") is None:
        print("(cargo is not installed: laminarmq is skipped)")
        return None
    target = Path(os.environ.get("CARGO_TARGET_DIR", PROGRAM / "target"))
    built = subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=PROGRAM, check=False)
    if built.returncode:
        print("(laminarmq could not be built: skipped)")
        return None
    return target / "release" / "laminarmq-peer"


class _Case:
    """Values of one size: our side and laminarmq's, in rounds."""

    def __init__(self, program: Path, directory: Path, scale: Scale, value_bytes: int) -> None:
        self._program, self._directory, self._repeats = program, directory, scale.repeats
        self._value_bytes = value_bytes
        most = scale.file_bytes // value_bytes
        self._appended, self._read_back = min(5 * scale.calls, most), min(scale.calls // 2, most)
        self._config = seglog.LogConfig(segment_bytes=SEGMENT_BYTES)
        self._ours, self._theirs = directory / "ours", directory / "theirs"

    def figures(self) -> Iterator[Figure]:
        """Yield a figure each for batches, single appends, reading, and reading what laminarmq wrote."""
        self._prepare()
        sides = (self._batch, self._single, self._append, self._read, self._read_ours, self._read_theirs)
        batch, single, append, theirs, read, read_theirs = in_rounds(sides, repeats=self._repeats)
        size, written, back = self._value_bytes, self._appended, self._read_back
        yield self._figure("batch append", batch, append, written, BATCH_AIMS.get(size))
        yield self._figure("append, buffered", single, append, written, SINGLE_AIMS.get(size))
        yield self._figure("verified read", read, theirs, back, READ_AIMS.get(size))
        yield self._figure("read of its files", read_theirs, theirs, back, None)

    def _figure(
        self, name: str, ours: tuple[float, ...], other: tuple[float, ...], records: int, aim: float | None
    ) -> Figure:
        name, work = f"{name}, {self._value_bytes:,} B", records / 1e3
        return Figure(name=name, against="laminarmq", ours=ours, other=other, work=work, unit="k records", aim=aim)

    def _prepare(self) -> None:
        """Write the log to read, and make the table to append."""
        rows, data = self._appended, np.random.default_rng(0).bytes(self._appended * self._value_bytes)
        offsets = np.arange(rows + 1, dtype=np.int32) * self._value_bytes
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        self._table = pa.table({"value": pa.Array.from_buffers(pa.binary(), rows, buffers)})
        shutil.rmtree(self._ours, ignore_errors=True)
        with seglog.open(self._ours, self._config) as log:
            log.append_batch(self._table.slice(0, self._read_back))

    def _recycle(self) -> None:
        recycle(self._directory, self._appended * (self._value_bytes + 64))

    def _batch(self) -> float:
        self._recycle()
        log = seglog.open(self._directory / "batches", self._config)
        with stopwatch() as watch:
            log.append_batch(self._table)
        log.remove()
        return watch.seconds

    def _single(self) -> float:
        self._recycle()
        config = seglog.LogConfig(segment_bytes=SEGMENT_BYTES, buffer_bytes=BUFFER_BYTES)
        log, value = seglog.open(self._directory / "singles", config), bytes(self._value_bytes)
        append = log.append
        with stopwatch() as watch:
            for _ in range(self._appended):
                append(value)
        log.remove()
        return watch.seconds

    def _run(self, what: str, storage: str, place: Path, records: int) -> Run:
        command = [str(self._program), what, storage, str(place), str(self._value_bytes), str(records), "1"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        run: Run = json.loads(done.stdout)
        return run

    def _append(self) -> float:
        self._recycle()
        place = self._directory / "appended"
        run = self._run("append", APPENDING, place, self._appended)
        shutil.rmtree(place)
        return float(run["append_seconds"])

    def _read(self) -> float:
        """Let it write what it then reads; this takes it 50 us per record, so fewer records are read than appended."""
        return float(self._run("read", READING, self._theirs, self._read_back)["read_seconds"])

    def _read_ours(self) -> float:
        with seglog.open(self._ours, mode="r") as log, stopwatch() as watch:
            rows = sum(batch.num_rows for batch in log.batches())
        assert rows == self._read_back
        return watch.seconds

    def _read_theirs(self) -> float:
        source = open_laminarmq(self._theirs)
        with stopwatch() as watch:
            rows = sum(1 for _ in source.scan())
        assert rows == self._read_back
        return watch.seconds
