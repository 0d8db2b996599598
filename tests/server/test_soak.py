"""64 producers and 16 consumers over a server that is killed: everything acknowledged is there, once, and taken once.

Producers and consumers are programs of their own that keep ledgers; what is checked is the topic on disk against them.
SEGLOG_SOAK_SECONDS: how long the producers work, 12 by default.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from seglog.client import Client
from seglog.topic.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.conftest import Served

SECONDS = float(os.environ.get("SEGLOG_SOAK_SECONDS", "12"))
PROGRAMS = Path(__file__).parent / "programs"
PRODUCERS, PARTITIONS, KILLS = 64, 4, 3
MEMORY_BYTES = 700 * 2**20
END_SECONDS = 120

pytestmark = [pytest.mark.proof, pytest.mark.timeout(4 * SECONDS + 2 * END_SECONDS)]

Place = tuple[int, int]
"""Partition and offset of a record."""


class Programs:
    """Running programs of one kind; each has a ledger."""

    def __init__(self, name: str, url: str, directory: Path, arguments: Iterable[Iterable[str]]) -> None:
        self.running: list[subprocess.Popen[bytes]] = []
        self._ledgers: list[Path] = []
        for number, own in enumerate(arguments):
            self._ledgers.append(directory / f"{name}-{number}")
            command = [sys.executable, str(PROGRAMS / f"{name}.py"), url, "orders", str(self._ledgers[-1]), *own]
            self.running.append(subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE))

    def work(self, seconds: float) -> None:
        """Let them work for so long; none may end."""
        try:
            self.running[0].wait(seconds)
        except subprocess.TimeoutExpired:
            if all(process.poll() is None for process in self.running):
                return
        raise AssertionError(f"a program ended early: {[process.communicate()[1] for process in self.running]}")

    def end(self) -> list[Any]:
        """Tell them that it is over, wait, and return the lines of all ledgers."""
        for process in self.running:
            assert process.stdin is not None
            process.stdin.close()
            process.stdin = None
        for process in self.running:
            _, said = process.communicate(timeout=END_SECONDS)
            assert process.returncode == 0, said.decode()
        return [json.loads(line) for ledger in self._ledgers for line in ledger.read_text().splitlines()]

    def kill(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.kill()
                process.communicate()


def peak_bytes(server: Served) -> int:
    """Return the most memory that the server has held."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return 1024 * int(found[1])


def stored_names(root: Path) -> dict[Place, str]:
    """Return what is on disk, in order; each value is whole, its key is the one its name says."""
    found: dict[Place, str] = {}
    with Topic.open(root / "orders", mode="r") as topic:
        for number in range(topic.partitions):
            log = topic.partition(number)
            assert log.verify().ok
            for record in log.scan():
                name, _, padding = record.value.partition(b" ")
                assert padding == bytes(80)
                assert record.key == name.rpartition(b":")[0]
                found[number, record.offset] = name.decode()
    return found


def check_order_of_keys(names: Iterable[str]) -> None:
    """Check that the records of each key come counted from 0, none missing, none twice."""
    following: Counter[str] = Counter()
    for name in names:
        key, _, count = name.rpartition(":")
        assert int(count) == following[key], f"record {following[key]} of key {key} was to come, not {name}"
        following[key] += 1


def check_acknowledged(stored: dict[Place, str], acknowledged: list[Any]) -> None:
    """Check that what is stored is what was acknowledged, where it was said to be: no more, no less."""
    said = {(partition, offset): name for partition, offset, name in acknowledged}
    assert len(said) == len(acknowledged), "two records were acknowledged at one place"
    assert said == stored != {}
    check_order_of_keys(stored.values())
    for number in range(PARTITIONS):
        offsets = [offset for partition, offset in stored if partition == number]
        assert offsets == list(range(len(offsets)))


def check_taken(stored: dict[Place, str], taken: list[Any], groups: set[str]) -> None:
    """Check that each group took every record once, those of a key in order, whoever of its members took them."""
    refused = [line for line in taken if line[0] == "refused"]
    assert not refused, refused
    for group in groups:
        lines = sorted((line for line in taken if line[0] == group), key=lambda line: line[2:5])
        places = {(partition, offset): name for _, _, _, partition, offset, name in lines}
        assert len(lines) == len(places), "a record was taken twice"
        assert places == stored
        check_order_of_keys(name for *_, name in lines)


@pytest.mark.parametrize("groups", [["all"] * 16, ["a", "b", "c", "d"] * 4], ids=["one group of 16", "4 groups of 4"])
def test_kills_of_the_server_lose_nothing_double_nothing_and_keep_the_order_of_keys(
    serve: Callable[..., Served], tmp_path: Path, groups: list[str]
) -> None:
    server = serve()
    with Client(server.url) as client:
        client.create_topic("orders", partitions=PARTITIONS)
    halves = [(str(first), str(first + PRODUCERS // 2)) for first in (0, PRODUCERS // 2)]
    producers = Programs("soak_producers", server.url, tmp_path, halves)
    consumers = Programs("soak_consumers", server.url, tmp_path, [groups])
    peaks = []
    try:
        for _ in range(KILLS):
            producers.work(SECONDS / (KILLS + 1))
            peaks.append(peak_bytes(server))
            server.kill()
            server.start()
        producers.work(SECONDS / (KILLS + 1))
        acknowledged, taken = producers.end(), consumers.end()
    finally:
        producers.kill()
        consumers.kill()
    peaks.append(peak_bytes(server))
    server.stop()

    stored = stored_names(server.root)
    check_acknowledged(stored, acknowledged)
    check_taken(stored, taken, set(groups))
    print(
        f"\n{len(stored)} records acknowledged ({len(stored) / SECONDS:.0f}/s), {len(taken)} taken and committed "
        f"({len(taken) / SECONDS:.0f}/s), {KILLS} kills, "
        f"{server.process.returncode} the server's last exit, at most {max(peaks) / 2**20:.0f} MiB of memory"
    )
    assert max(peaks) < MEMORY_BYTES
