"""Real processes that publish to one topic: killed again and again, and two of them at once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from seglog.topic import Topic
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

KILLS = 20
PARTITIONS = 3

# A process that has loaded everything forks one writer after the other, so that a kill costs no start of Python.
WRITERS = """
import os, sys, time, pyarrow, seglog
from seglog.log.staging import Stage, remove_stages
from seglog.topic import Topic

def values(batch, partition):
    return [b"%d/%d/%d" % (batch, partition, row) for row in range(1 + (batch * 7 + partition * 5) % 23)]

def stage(root, batch):
    staged = {}
    for partition in range(3):
        with Stage(seglog.LocalStorage(f"{root}/{partition}"), f"q-{batch}") as one:
            one.append_batch(pyarrow.table({"value": values(batch, partition)}))
            staged[partition] = one.finish()
    return staged

def write(root):
    with Topic.open(root) as topic:
        last = topic.partition(0).published("q")
    last = -1 if last is None else last
    for batch in range(last, 10**6):
        if batch < 0:
            continue
        staged = stage(root, batch)
        with Topic.open(root) as topic:
            new = topic.publish(staged, query="q", batch=batch)
        assert (new is None) == (batch == last), "only what was there already is taken for a replay"
        os.write(1, b"ack %d\\n" % batch)
        for partition in range(3):
            remove_stages(seglog.LocalStorage(f"{root}/{partition}"), f"q-{batch}")

warm = seglog.MemoryStorage()
seglog.open(warm).close()
with Stage(warm, "q-0") as one:
    one.append_batch(pyarrow.table({"value": [b"x"]}))
for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            write(sys.argv[1])
        except BaseException as error:
            os.write(1, b"failed %r\\n" % repr(error).encode())
        os._exit(1)
    os.write(1, b"pid %d\\n" % child)
    os.waitpid(child, 0)
    os.write(1, b"gone\\n")
"""


class Writers:
    """The process that starts writers, and what they acknowledged."""

    def __init__(self, root: Path) -> None:
        self.acknowledged = -1
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", WRITERS, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def kill_one(self, acknowledgements: int, delay: float) -> None:
        """Start a writer and kill it so long after so many acknowledgements; return when it is gone."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        pid, seen, killer = 0, 0, None
        for line in self.process.stdout:
            what, _, rest = line.strip().partition(" ")
            assert what != "failed", rest
            if what == "gone":
                break
            if what == "pid":
                pid = int(rest)
            else:
                seen, self.acknowledged = seen + 1, max(self.acknowledged, int(rest))
            if seen == acknowledgements and pid and killer is None:
                killer = threading.Timer(delay, os.kill, (pid, signal.SIGKILL))
                killer.start()
        assert killer is not None, "the writer ended by itself"
        killer.join()


def values(batch: int, partition: int) -> list[bytes]:
    return [b"%d/%d/%d" % (batch, partition, row) for row in range(1 + (batch * 7 + partition * 5) % 23)]


def test_kill_9_of_a_process_that_stages_and_publishes_leaves_every_batch_in_all_partitions_once(scene: Any) -> None:
    Topic.create(scene.root, partitions=PARTITIONS, config=scene.CONFIG).close()
    chance, writers = random.Random(5), Writers(scene.root)
    try:
        for _ in range(KILLS):
            writers.kill_one(chance.randrange(4), chance.random() * 0.08)
    finally:
        writers.process.kill()
        writers.process.communicate()
    with Topic.open(scene.root) as topic:
        batches = 1 + (topic.partition(0).published("q") or 0)
        assert batches > writers.acknowledged >= 0
        for partition in range(PARTITIONS):
            log = topic.partition(partition)
            expected = [value for batch in range(batches) for value in values(batch, partition)]
            assert [record.value for record in log.scan()] == expected
            assert log.to_arrow()["value"].to_pylist() == expected
            assert log.published("q") == batches - 1
        scene.check_sound(topic)


def test_threads_that_publish_and_append_at_once_all_get_theirs_in_once(scene: Any) -> None:
    with scene.make() as topic:
        staged = {query: scene.stage({number: [query.encode()] for number in (0, 1, 3)}, query) for query in "abcdef"}
        added = {}

        def publish(query: str) -> None:
            added[query] = topic.publish(staged[query], query=query, batch=0)
            topic.append(b"single", key=b"k")

        threads = [threading.Thread(target=publish, args=(query,)) for query in staged]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_SECONDS)
        assert sorted(added) == sorted(staged)
        for query, offsets in added.items():
            assert {number: topic.partition(number).read(where[0]).value for number, where in offsets.items()} == (
                dict.fromkeys((0, 1, 3), query.encode())
            )
        found = scene.values(topic)
        assert sum(values.count(b"single") for values in found.values()) == 6
        order = [[value for value in found[number] if len(value) == 1] for number in (0, 1, 3)]
        assert order[0] == order[1] == order[2]
        assert sorted(order[0]) == [b"a", b"b", b"c", b"d", b"e", b"f"]
        scene.check_sound(topic)


PUBLISH = """
import sys, time, pyarrow, seglog
from seglog.log.staging import Stage
from seglog.topic import Topic
root, query = sys.argv[1:]
for batch in range(7):
    staged = {}
    for partition in range(3):
        with Stage(seglog.LocalStorage(f"{root}/{partition}"), f"{query}-{batch}") as one:
            one.append_batch(pyarrow.table({"value": [f"{query}{batch}/{row}".encode() for row in range(5)]}))
            staged[partition] = one.finish()
    while True:
        try:
            with Topic.open(root) as topic:
                assert topic.publish(staged, query=query, batch=batch)
            break
        except seglog.LogLocked:
            time.sleep(0.001)
"""


def test_two_processes_that_publish_different_queries_at_once_both_get_all_of_theirs_in(scene: Any) -> None:
    Topic.create(scene.root, partitions=PARTITIONS, config=scene.CONFIG).close()
    both = [subprocess.Popen([sys.executable, "-c", PUBLISH, str(scene.root), query]) for query in ("a", "b")]
    assert [process.wait(HANG_SECONDS) for process in both] == [0, 0]
    with Topic.open(scene.root) as topic:
        order = [[record.value for record in topic.partition(number).scan()] for number in range(PARTITIONS)]
        scene.check_sound(topic)
    assert order[0] == order[1] == order[2], "batches have one order in all partitions"
    for query in (b"a", b"b"):
        own = [value for value in order[0] if value is not None and value.startswith(query)]
        assert own == [b"%b%d/%d" % (query, batch, row) for batch in range(7) for row in range(5)]
