"""kill -9 of the process that synchronizes, at any moment, while the logs are appended to, truncated and compacted."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

import seglog
from seglog import LogConfig, Retention
from seglog.table import sync
from tests.proofs import tell
from tests.table.conftest import files, logged, stored

PROGRAM = """
import sys
from seglog.table import TableSync
with TableSync(sys.argv[1], sys.argv[2], active=True, latest=True, schema="infer") as tables:
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


class Shop:
    """A topic whose retention and compaction wait for its table, and every record that was not cut off."""

    def __init__(self, topic: seglog.Topic, chance: random.Random) -> None:
        self.topic = topic
        self.expected: dict[tuple[int, int], tuple[bytes, bytes]] = {}
        self.counts = dict.fromkeys(("records", "truncates", "compactions", "deletions"), 0)
        self._chance = chance

    def append(self) -> None:
        for _ in range(self._chance.randrange(400)):
            value, key = self._value(), b"%d" % self._chance.randrange(1000)
            self.expected[tuple(self.topic.append(value, key=key))] = key, value
            self.counts["records"] += 1
        self.topic.sync()

    def _value(self) -> bytes:
        """Return JSON with a number and, from time to time, a field that is new, or bytes that are no JSON."""
        if self._chance.random() < 0.1:
            return b"\0" + self._chance.randbytes(40)
        new = f"f{len(self.expected) // 2000 % 100}"
        return json.dumps({"n": self._chance.randrange(1 << 40), new: self._chance.random()}).encode()

    def disturb(self) -> None:
        number, what = self._chance.randrange(2), self._chance.random()
        log = self.topic.partition(number)
        if what < 0.1:
            offset = self._chance.randint(max(log.lowest_offset, log.next_offset - 2000), log.next_offset)
            log.truncate(offset)
            self.expected = {at: one for at, one in self.expected.items() if at[0] != number or at[1] < offset}
            self.counts["truncates"] += 1
        elif what < 0.2:
            self.counts["compactions"] += log.compact(roll=True).superseded > 0
        elif what < 0.3:
            self.counts["deletions"] += log.expire()


def check(shop: Shop, warehouse: Path) -> None:
    rows = stored(warehouse, "orders")
    assert len({row[:2] for row in rows}) == len(rows)
    assert {row[:2]: row[3:5] for row in rows} == shop.expected
    assert set(logged(shop.topic)) <= set(rows)
    check_latest(shop, warehouse)
    query = "SELECT value, n, unfit FROM read_parquet(?, union_by_name = true)"
    for value, number, unfit in duckdb.execute(query, [files(warehouse, "orders")]).fetchall():
        assert (number, unfit) == (json.loads(value)["n"], None) if value[:1] == b"{" else unfit is not None


def check_latest(shop: Shop, warehouse: Path) -> None:
    """A key has its newest row. Only a cut may take one away, of a key that the log does not hold any more."""
    rows = stored(warehouse, "orders_latest")
    newest = {key: place for place, (key, _) in sorted(shop.expected.items())}
    latest = {row[3]: row[:2] for row in rows}
    assert len(latest) == len(rows)
    assert latest.items() <= newest.items()
    assert latest.keys() >= {row[3] for row in logged(shop.topic)}
    if not shop.counts["truncates"]:
        assert latest == newest


@pytest.mark.proof
@pytest.mark.timeout(300 + 15 * KILLS)
def test_after_kills_at_any_moment_the_table_has_every_record_once(tmp_path: Path) -> None:
    chance = random.Random(KILLS)
    place, warehouse = tmp_path / "orders", tmp_path / "warehouse"
    config = LogConfig(segment_bytes=64 << 10, retention=Retention(bytes=256 << 10, compact=True, after="table"))
    with seglog.Topic.create(place, partitions=2, config=config) as topic:
        shop = Shop(topic, chance)
        for number in range(KILLS):
            with synchronizer(place, warehouse):
                until = time.monotonic() + chance.uniform(0.05, 1.0)
                while time.monotonic() < until:
                    shop.append()
                    shop.disturb()
            if number % 10 == 9:
                sync(place, warehouse, active=True, latest=True)
                check(shop, warehouse)
        sync(place, warehouse, active=True, latest=True)
        check(shop, warehouse)
    tell("killed table syncs", kills=KILLS, rows=len(shop.expected), violations=0, **shop.counts)
