"""kill -9 of a real writer, again and again, at whatever it happens to do; its parent keeps the ledger."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

import seglog

if TYPE_CHECKING:
    from pathlib import Path

APPEND = """
import sys, seglog
log = seglog.open(sys.argv[1], seglog.LogConfig(segment_bytes=4096))
while True:
    offset = log.next_offset
    value = b"%d:" % offset + b"v" * (offset % 97)
    if offset % 11 == 5:
        log.append_stream([value[:1], value[1:]])
    else:
        log.append(value)
    if offset % 50 == 49:
        log.sync()
    sys.stdout.write(f"{offset}\\n")
    sys.stdout.flush()
"""

BATCH = """
import sys, pyarrow, seglog
log = seglog.open(sys.argv[1], seglog.LogConfig(segment_bytes=1 << 22))
while True:
    first = log.next_offset
    rows = 1 + first % 3000
    values = [b"%d/%d/%d" % (first, row, rows) for row in range(rows)]
    offsets = log.append_batch(pyarrow.table({"value": values}))
    sys.stdout.write(f"{offsets.stop - 1}\\n")
    sys.stdout.flush()
"""


def acknowledged_until_killed(program: str, path: Path, acknowledgements: int) -> int:
    """Run a writer, kill it after so many acknowledgements, and return the last offset it has acknowledged."""
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    last = -1
    with process:
        assert process.stdout is not None
        for line in process.stdout:  # what it still wrote before the signal arrived counts, too
            last = int(line) if line.endswith("\n") else last
            acknowledgements -= 1
            if acknowledgements == 0:
                process.kill()
    watchdog.cancel()
    assert acknowledgements <= 0, "the writer ended by itself"
    return last


def check(log: seglog.Log, acknowledged: int) -> None:
    assert log.next_offset > acknowledged
    assert not log.recovery.damaged, log.recovery.events
    assert log.verify().ok


@pytest.mark.parametrize("seed", [1, 2])
def test_24_kill_9_again_and_again_loses_nothing_acknowledged_and_invents_nothing(tmp_path: Path, seed: int) -> None:
    kills = random.Random(seed)
    for _ in range(7):
        last = acknowledged_until_killed(APPEND, tmp_path / "log", kills.randint(1, 600))
        with seglog.open(tmp_path / "log") as log:
            check(log, last)
            records = list(log.scan())
        assert [record.offset for record in records] == list(range(len(records)))
        assert all(record.value == b"%d:" % record.offset + b"v" * (record.offset % 97) for record in records)


def test_24_a_batch_in_flight_at_the_kill_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    kills = random.Random(3)
    for _ in range(6):
        last = acknowledged_until_killed(BATCH, tmp_path / "log", kills.randint(1, 40))
        with seglog.open(tmp_path / "log") as log:
            check(log, last)
            values = log.to_arrow()["value"].to_pylist()
        number = 0
        while number < len(values):
            first, _, rows = (int(part) for part in values[number].split(b"/"))
            assert first == number
            assert values[number : number + rows] == [b"%d/%d/%d" % (first, row, rows) for row in range(rows)]
            number += rows
