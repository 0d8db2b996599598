"""Processes are killed and connections are cut while records are written: the copies end up equal to their leader."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import seglog
from seglog import LogConfig, Mirror
from seglog.replication.diff import diff
from tests.replication.conftest import fill
from tests.replication.proxy import CuttingProxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Served
    from tests.proofs import Tell

CONFIG = LogConfig(segment_bytes=64 * 1024)
pytestmark = pytest.mark.no_cover


class Mirroring:
    """A `seglog mirror` process."""

    def __init__(self, source: str, target: Path) -> None:
        self._command = [sys.executable, "-m", "seglog", "mirror", source, str(target), "--wait", "5s"]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        _, said = self.process.communicate()
        assert self.process.returncode == -signal.SIGKILL, said

    def close(self) -> None:
        """End it, unless it was killed."""
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def proxy_to() -> Iterator[Callable[[int], CuttingProxy]]:
    made: list[CuttingProxy] = []

    def make(port: int) -> CuttingProxy:
        made.append(CuttingProxy(port))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


@pytest.mark.parametrize("kills", [pytest.param(2, id="few"), pytest.param(25, marks=pytest.mark.proof, id="many")])
def test_a_mirror_that_is_killed_at_any_moment_leaves_a_copy_that_goes_on(
    source: Path, target: Path, kills: int, tell: Tell
) -> None:
    chance = random.Random(kills)
    with seglog.open(source, CONFIG) as log:
        fill(log, 2000, "first")
        mirror = Mirroring(str(source), target)
        try:
            for number in range(kills):
                ends = time.monotonic() + 0.8 + chance.random()  # a process needs half a second to begin
                while time.monotonic() < ends:
                    fill(log, 500, f"round {number}")
                    if chance.random() < 0.1:
                        log.truncate(log.next_offset - chance.randrange(1, 400))
                    time.sleep(0.002)
                mirror.kill()
                if number + 1 < kills:
                    mirror.start()
        finally:
            mirror.close()
        with Mirror(source, target) as again:
            while again.step():
                pass
        report = diff(source, target)
        assert report.same, report.differences
        assert not report.behind
        assert seglog.verify(target).ok
        tell("killed mirrors", kills=kills, records=report.records, violations=0)


@pytest.mark.proof
def test_two_followers_survive_kills_of_everything_and_cut_connections(
    serve: Callable[..., Served],
    proxy_to: Callable[[int], CuttingProxy],
    tmp_path: Path,
    tell: Tell,
) -> None:
    chance, leader = random.Random(24), serve()
    proxy = proxy_to(leader.port)
    copies = [tmp_path / "one", tmp_path / "two"]
    with seglog.Client(leader.url) as client:
        client.create_topic("orders", partitions=2, config=CONFIG)
        mirrors = [Mirroring(proxy.url, copy) for copy in copies]
        kills = appended = 0
        ends = time.monotonic() + 60
        try:
            while time.monotonic() < ends:
                producer = client.producer("orders")
                for _ in range(2000):
                    producer.send(b"%d" % appended, key=b"%d" % (appended % 100))
                    appended += 1
                producer.close()
                happens = chance.random()
                if happens < 0.15:
                    proxy.cut()
                elif happens < 0.25:
                    one = chance.choice(mirrors)
                    one.kill()
                    one.start()
                    kills += 1
                elif happens < 0.30:
                    leader.kill()
                    leader.start()
                    kills += 1
                elif happens < 0.40:
                    number = chance.randrange(2)
                    end = client.topic("orders").bounds()[number].next_offset
                    client.topic("orders").truncate(number, max(end - chance.randrange(1, 1000), 0))
        finally:
            for mirror in mirrors:
                mirror.close()
        for copy in copies:
            with Mirror(leader.url, copy) as again:
                while again.step():
                    pass
            report = diff(leader.url, copy)
            assert report.same, report.differences
            assert not report.behind
        tell("followers", kills=kills, cuts=proxy.cuts, records=appended, violations=0)
