"""Everything is killed, cut off and truncated while appends wait for copies: what was acknowledged is on the copies."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import pytest

import seglog
from seglog import LogConfig
from seglog.replication.promote import promote
from tests.replication.test_chaos import Mirroring, proxy_to

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Served
    from tests.proofs import Tell
    from tests.replication.proxy import CuttingProxy

__all__ = ["proxy_to"]  # a fixture
CONFIG = LogConfig(segment_bytes=64 * 1024)
WRITERS = 4


class Acknowledged(NamedTuple):
    """A record that a server acknowledged as mirrored. began: when its append began."""

    value: bytes
    place: tuple[int, int]
    copies: int
    began: float


class Cut(NamedTuple):
    """A truncate. ended: when it had returned."""

    partition: int
    offset: int
    ended: float


class Writers:
    """Threads that append records, each waiting for one or two copies, until they are stopped."""

    def __init__(self, url: str) -> None:
        self.acknowledged: list[Acknowledged] = []
        self.refused = 0
        self._url = url
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def _write(self, number: int) -> None:
        copies, count = 1 + number % 2, 0
        with seglog.Client(self._url) as client:
            orders = client.topic("orders")
            while not self._stop.is_set():
                count += 1
                value, began = b"%d of writer %d" % (count, number), time.monotonic()
                try:
                    place = orders.append(value, key=b"%d" % count, ack="mirrored", copies=copies, wait=1)
                except seglog.SeglogError:
                    self.refused += 1
                else:
                    self.acknowledged.append(Acknowledged(value, place, copies, began))

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def may_be_cut(one: Acknowledged, cuts: list[Cut]) -> bool:
    partition, offset = one.place
    return any(cut.partition == partition and cut.offset <= offset and cut.ended >= one.began for cut in cuts)


def values_of(copy: Path) -> dict[tuple[int, int], bytes | None]:
    with seglog.Topic.open(copy / "orders", mode="r") as topic:
        return {
            (number, record.offset): record.value
            for number in range(topic.partitions)
            for record in topic.partition(number).scan()
        }


@pytest.mark.parametrize("seconds", [pytest.param(3, id="short"), pytest.param(60, marks=pytest.mark.proof, id="long")])
def test_no_record_that_was_acknowledged_as_mirrored_is_missing_after_a_promotion(
    serve: Callable[..., Served],
    proxy_to: Callable[[int], CuttingProxy],
    tmp_path: Path,
    seconds: int,
    tell: Tell,
) -> None:
    chance, leader = random.Random(seconds), serve()
    proxy = proxy_to(leader.port)
    places = [tmp_path / "one", tmp_path / "two"]
    kills, cuts = 0, []
    with seglog.Client(leader.url) as client:
        client.create_topic("orders", partitions=2, config=CONFIG)
        mirrors = [Mirroring(proxy.url, place) for place in places]
        client.topic("orders").append(b"both copy", ack="mirrored", copies=2, wait=60)
        writers = Writers(leader.url)
        ends = time.monotonic() + seconds
        try:
            while time.monotonic() < ends:
                time.sleep(chance.random() * 0.6)
                happens = chance.random()
                if happens < 0.25:
                    proxy.cut()
                elif happens < 0.35:
                    one = chance.choice(mirrors)
                    one.kill()
                    one.start()
                    kills += 1
                elif happens < 0.45:
                    leader.kill()
                    leader.start()
                    kills += 1
                elif happens < 0.75:
                    number = chance.randrange(2)
                    end = client.topic("orders").bounds()[number].next_offset
                    with suppress(seglog.OffsetOutOfRange):
                        offset = max(end - chance.randrange(5), 0)
                        client.topic("orders").truncate(number, offset)
                        cuts.append(Cut(number, offset, time.monotonic()))
            leader.kill()
        finally:
            writers.stop()
            for mirror in mirrors:
                mirror.close()
    assert writers.acknowledged
    promote(places[0])
    held = [values_of(place) for place in places]
    certain = [one for one in writers.acknowledged if not may_be_cut(one, cuts)]
    missing = [one for one in certain if sum(copy.get(one.place) == one.value for copy in held) < one.copies]
    assert missing == []
    tell("mirrored", kills=kills, cuts=len(cuts), acknowledged=len(certain), refused=writers.refused, violations=0)
