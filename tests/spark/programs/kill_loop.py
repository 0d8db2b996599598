"""A kill -9 loop: topic `input` (fed by this process) -> state per key -> topic `output`, killed again and again.

    python kill_loop.py DIRECTORY --kills 20 --seed 1 [--kinds worker,jvm,...]

At random moments (while Spark starts, while it stages or publishes, at any time) one of these is ended with kill -9: a
Python `worker` (it reads, runs the state, stages or publishes), the `jvm`, the Python `driver` (its JVM then ends by
itself, in its own time), or the whole `session` at once. Spark is started again from its checkpoint each time. At the
end every key's output must be record for record what plain Python makes of what was fed. Prints one line of JSON for
each kill, and the counts.
"""

from __future__ import annotations

import argparse
import itertools
import random
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from harness import SMALL, Session, check_sound, count, driver, end_cleanly, left_over, say, stored, wait_until
from pipeline import shown, step

from seglog.topic import Topic

MOMENTS = ("starting", "writing", "any")
KINDS = ("worker", "jvm", "driver", "session")
KEYS = 40
BACKLOG = 1500  # records that the feeder lets wait: enough for a micro-batch, so that there is always one to kill
STARTING = 8.0  # seconds in which a Spark starts: some kills come then
A_BATCH = 1.5  # seconds a micro-batch takes, about


class Feeder:
    """Appends records as long as it runs, from a thread of its own, and knows what it has appended."""

    def __init__(self, root: Path, seed: int) -> None:
        self.values: dict[bytes, list[bytes]] = {}
        self.records = 0
        self._random = random.Random(seed)
        self._input, self._output = root / "input", root / "output"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: BaseException | None = None

    def _run(self) -> None:
        try:
            with Topic.open(self._input) as topic, Topic.open(self._output, mode="r") as output:
                while not self._stop.is_set():
                    behind = self.records - sum(output.partition(n).next_offset for n in range(output.partitions))
                    if behind < BACKLOG:
                        self._append(topic, self._random.randint(1, 200))
                    self._stop.wait(0.02)
        except BaseException as error:  # noqa: BLE001 - told to the main thread
            self._error = error

    def _append(self, topic: Topic, count: int) -> None:
        for _ in range(count):
            key = b"key %d" % min(int(self._random.expovariate(1) * 8), KEYS - 1)
            value = b"%d:" % self.records + b"v" * self._random.randrange(200)
            topic.append(value, key=key)
            self.values.setdefault(key, []).append(value)
            self.records += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Append no more; raises what went wrong."""
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def expected(self, key: bytes) -> list[bytes]:
        """Return what the pipeline makes of all that was appended for a key."""
        count, checksum, values = 0, 0, []
        for value in self.values[key]:
            count, checksum = step(count, checksum, value)
            values.append(shown(count, checksum))
        return values


class Loop:
    """The Spark of the moment, and what has been done to it."""

    def __init__(self, root: Path, seed: int, kinds: list[str]) -> None:
        self.root = root
        self.output = root / "output"
        self.starts = 0
        self.kills: dict[str, int] = dict.fromkeys(kinds, 0)
        self.moments = dict.fromkeys(MOMENTS, 0)
        self.found = {"stages": 0, "transactions": 0}  # kills behind which there were some
        self.failed_queries = 0
        self._random = random.Random(seed)
        self._stack = ExitStack()
        self._spark: Session | None = None

    def spark(self) -> Session:
        """Return a Spark that runs: the present one, or a new one if it has ended or is about to."""
        if self._spark is not None and not self._spark.ended():
            return self._spark
        if self._spark is not None:
            self._spark.wait_until_gone()  # two of them on one checkpoint would be another story
            self._stack.close()
        self._spark = self._stack.enter_context(driver("pipeline.py", self.root, "state"))
        self.starts += 1
        return self._spark

    def kill(self, kind: str) -> None:
        """Wait for a random moment, and end something then."""
        spark = self.spark()
        when = self._random.choices(MOMENTS, (1, 2, 2))[0]
        if when == "starting" and kind != "worker":
            time.sleep(self._random.random() * STARTING)  # the moment itself, not a condition
        else:
            self.wait_for_output(spark)
        if when == "writing":
            wait_until(lambda: left_over(self.output), "a stage")
        elif when == "any":
            time.sleep(self._random.random() * A_BATCH)  # as above
        victims = self.victims(spark, kind)
        left = left_over(self.output)
        spark.kill(*victims)
        self.moments[when] += 1
        self.found["stages"] += any("staging" in name for name in left)
        self.found["transactions"] += any(name.startswith("txn/") for name in left)
        self.kills[kind] += 1
        self.count_failures(spark)
        say(kill=sum(self.kills.values()), what=kind, when=when, records=count(self.output), starts=self.starts)
        if kind != "worker":
            wait_until(spark.ended, f"the end of a Spark whose {kind} was killed")

    def victims(self, spark: Session, kind: str) -> list[int]:
        """Return the processes to kill; nobody is `the whole session`."""
        members = spark.members()
        by_kind = {
            "session": [],
            "driver": [spark.process.pid],
            "jvm": [one for one, command in members.items() if "/java " in command],
            "worker": [one for one, command in members.items() if "pyspark.daemon" in command or "_runner" in command],
        }
        found = sorted(by_kind[kind])
        return found if kind != "worker" else [self._random.choice(found)]

    def wait_for_output(self, spark: Session) -> None:
        """Wait until Spark has stored something more: it is at work."""
        before = count(self.output)
        wait_until(lambda: spark.ended() or count(self.output) > before, "output")
        assert not spark.ended(), "Spark ended by itself"

    def count_failures(self, spark: Session) -> None:
        """Count the queries that failed and were started again in the same Spark."""
        self.failed_queries += sum("failed" in line for line in spark.lines())

    def finish(self, records: int) -> None:
        """Let Spark process what is left, until nothing of what happened is left over."""
        wait_until(lambda: self.spark() and count(self.output) >= records, "the end of the output")
        wait_until(lambda: not left_over(self.output), "the cleaning up")
        self.count_failures(self.spark())

    def close(self) -> None:
        """End Spark."""
        self._stack.close()


def check(output: Path, feeder: Feeder) -> None:
    """AssertionError unless the output is record for record what it should be."""
    found: dict[bytes, list[bytes]] = {}
    for record in itertools.chain.from_iterable(stored(output)):
        found.setdefault(record.key or b"", []).append(record.value or b"")
    for key in feeder.values:
        assert found.get(key, []) == feeder.expected(key), f"{key!r} differs"
    assert set(found) == set(feeder.values)
    check_sound(output)


def main() -> None:
    """Run the loop; AssertionError where a record is lost, repeated, changed or out of order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS))
    given = parser.parse_args()
    began, root = time.monotonic(), given.directory
    Topic.create(root / "input", partitions=2, config=SMALL).close()
    Topic.create(root / "output", partitions=3, config=SMALL).close()
    loop = Loop(root, given.seed, given.kinds)
    try:
        with Feeder(root, given.seed) as feeder:
            for number in range(given.kills):
                loop.kill(given.kinds[number % len(given.kinds)])
            feeder.stop()
        loop.finish(feeder.records)
    finally:
        loop.close()
    check(loop.output, feeder)
    say(
        kills=sum(loop.kills.values()),
        by_kind=loop.kills,
        by_moment=loop.moments,
        kills_that_left=loop.found,
        starts=loop.starts,
        failed_queries=loop.failed_queries,
        records=feeder.records,
        keys=len(feeder.values),
        lost=0,
        repeated=0,
        seconds=round(time.monotonic() - began),
    )


if __name__ == "__main__":
    end_cleanly()
    main()
