"""kill -9 of the process that synchronizes, at any moment, while the logs are appended to, truncated and compacted."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import seglog
from seglog import LogConfig, Retention
from seglog.table import sync
from tests.proofs import tell
from tests.table.conftest import logged, stored

PROGRAM = """
import sys
from seglog.table import TableSync
with TableSync(sys.argv[1], sys.argv[2], active=True) as tables:
    print("ready", flush=True)
    while True:
        tables.step()
"""
KILLS = int(os.environ.get("SEGLOG_TABLE_KILLS", "12"))


@contextmanager
def synchronizer(place: Path, warehouse: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM, str(place), str(warehouse)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


@pytest.mark.proof
def test_after_kills_at_any_moment_the_table_has_every_record_once(tmp_path: Path) -> None:
    chance = random.Random(KILLS)
    place, warehouse = tmp_path / "orders", tmp_path / "warehouse"
    config = LogConfig(segment_bytes=64 << 10, retention=Retention(compact=True))
    truncates = records = 0
    with seglog.Topic.create(place, partitions=2, config=config) as topic:
        for _ in range(KILLS):
            with synchronizer(place, warehouse):
                until = time.monotonic() + chance.uniform(0.05, 1.0)
                while time.monotonic() < until:
                    for _ in range(chance.randrange(400)):
                        topic.append(chance.randbytes(40), key=b"%d" % chance.randrange(1000))
                        records += 1
                    topic.sync()
                    log = topic.partition(chance.randrange(2))
                    if chance.random() < 0.1:
                        log.truncate(chance.randint(log.lowest_offset, log.next_offset))
                        truncates += 1
        sync(place, warehouse, active=True)
        assert stored(warehouse, "orders") == logged(topic)
        for number in range(2):
            topic.partition(number).compact()
        sync(place, warehouse, active=True)
        rows = stored(warehouse, "orders")
        assert len({row[:2] for row in rows}) == len(rows)
        assert set(logged(topic)) <= set(rows)
    tell("killed table syncs", kills=KILLS, truncates=truncates, records=records, violations=0)
