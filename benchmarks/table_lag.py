"""How long after its append a record is in the table, behind a writer of 100,000 records per second."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import seglog
from benchmarks.scale import Scale
from benchmarks.timing import Figure, limited
from seglog.table import TableSync

RATE = 100_000
VALUE_BYTES = 100
INTERVAL = 1.0
WRITER = f"""
import sys, time
import pyarrow as pa
import seglog
value = pa.array([bytes({VALUE_BYTES})] * {RATE // 10}, pa.binary())
with seglog.open(sys.argv[1]) as log:
    print("ready", flush=True)
    began = time.time()
    for number in range(int(float(sys.argv[2]) * 10)):
        log.append_batch(pa.table({{"value": value}}))
        log.sync()
        time.sleep(max(0, began + (number + 1) / 10 - time.time()))
    print(len(log) / (time.time() - began))
"""


def figures(directory: Path, seconds: float) -> Iterator[Figure]:
    """Measure rounds of a second with `--all`. A lag is that of the oldest record that a round adds."""
    place, lags = directory / "lag", []
    command = [sys.executable, "-c", WRITER, str(place), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()  # the log is there
        with TableSync(place, directory / "lag-table", active=True) as tables:
            held = 0
            while writer.poll() is None:
                began = time.monotonic()
                (report,) = tables.step()
                if report.records:
                    lags.append(time.time() - _appended(place, held))
                    held = report.held[0]
                time.sleep(max(0.0, INTERVAL - (time.monotonic() - began)))
        rate = float(writer.stdout.read())
    shutil.rmtree(directory / "lag-table")
    label = f"lag of a table behind {rate / 1000:.0f} k/s"
    yield limited(f"{label}, median", tuple(lags), 3 * INTERVAL, work=1, unit="round")
    yield limited(f"{label}, worst", (max(lags),) * 2, 10 * INTERVAL, work=1, unit="round")


def _appended(place: Path, offset: int) -> float:
    """Return when a record was appended, in seconds."""
    with seglog.open(place, mode="r") as log:
        return log.read(offset).timestamp / 1e6


def seconds_of(scale: Scale) -> float:
    """Return how long the writer writes."""
    return 20.0 if scale.spark_rows > 1_000_000 else 4.0
