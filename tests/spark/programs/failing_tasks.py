"""Tasks that die, executors that die, and copies that come too late, on a cluster of two executors.

    python failing_tasks.py DIRECTORY [STORY ...]        default: all

Every write must store its rows once, whichever of its tasks had to be run again, and the next write of the same query
must leave nothing in the stages. Prints one line of JSON for each story.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cluster import HOSTS, QUIET, cluster
from harness import HERE, SMALL, check_sound, end_cleanly, say, stored, wait_until

from seglog.spark.session import local_session
from seglog.topic import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 4000
TASKS = 4
STORIES = ("exit", "kill", "executor", "slow", "every")
ATTEMPTS = {"every": 3}  # how often the task dies; once in the other stories
CONFIG = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": f"-XX:TieredStopAtLevel=1 {QUIET}",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.task.maxFailures": "3",
    "spark.speculation": "true",
    "spark.speculation.efficiency.enabled": "false",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.minTaskRuntime": "4s",  # more than a task takes that is not slow on purpose
}


class Stories:
    """A topic that one query writes batch after batch, and what is done to its tasks."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.output = root / "output"
        self._control = root / "control.json"
        self._spark = spark
        self._batch = 0
        self._numbers: list[int] = []
        Topic.create(self.output, partitions=3, config=SMALL).close()

    def write(self, how: str | None) -> bool:
        """Write the next batch, its task 2 dying in some way; return whether Spark says that it was stored."""
        Path(f"{self._control}.taken").unlink(missing_ok=True)
        self._control.write_text(json.dumps({"task": how, "partition": 2} if how else {}))
        first = self._batch * ROWS
        rows = self._spark.range(first, first + ROWS, 1, TASKS)
        rows = rows.selectExpr("string(id % 50) AS key", "string(id) AS value")
        writer = rows.write.format("seglog").mode("append").options(queryId="q", batchId=self._batch)
        try:
            writer.save(str(self.output))
        except Exception as error:  # noqa: BLE001 - Spark's own, of several kinds
            sys.stderr.write(f"{str(error).splitlines()[0]}\n")
            return False
        self._numbers += range(first, first + ROWS)
        self._batch += 1
        return True

    def events(self) -> list[str]:
        """Return what the tasks say that happened to them, and forget it."""
        log = self._control.with_name("control.json.log")
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    def check(self) -> None:
        """AssertionError unless all batches are stored once, the rows of a key in their order."""
        by_key: dict[bytes, list[int]] = {}
        for record in (record for share in stored(self.output) for record in share):
            by_key.setdefault(record.key or b"", []).append(int(record.value or b""))
        assert sorted(number for numbers in by_key.values() for number in numbers) == self._numbers
        assert all(numbers == sorted(numbers) for numbers in by_key.values())

    def tell(self, how: str) -> None:
        """Let one story happen, and a write behind it that clears up."""
        events: list[str] = []
        saved = self.write(how)
        self.check()
        wait_until(lambda: self.heard(events), "the task's death")
        if how == "slow":
            wait_until(lambda: self.copy_is_over(events), "the end of the slow copy")
        assert self.write(None)
        self.check()
        check_sound(self.output)
        say(story=how, stored=saved, events=[event.split()[0] for event in events])
        assert saved == (how != "every")
        assert [event.split()[0] for event in events if "late" not in event] == [how] * ATTEMPTS.get(how, 1)

    def heard(self, events: list[str]) -> bool:
        """Take in what happened to the tasks; tell whether anything did."""
        events += self.events()
        return bool(events)

    def copy_is_over(self, events: list[str]) -> bool:
        """Tell whether the first attempt, which a copy has overtaken, has gone on or was ended."""
        events += self.events()
        worker = next(event.split()[1] for event in events if event.startswith("slow"))
        return any(event.startswith("late") for event in events) or not Path(f"/proc/{worker}").exists()


def main(root: Path, told: list[str]) -> None:
    """Let the stories happen; AssertionError where rows are lost, repeated, or left in a stage."""
    control = root / "control.json"
    paths = [str(HERE / "faults"), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "SEGLOG_TEST_CONTROL": str(control)}
    os.environ.update(environment)  # the driver's own JVM and its Python workers
    with cluster(root, environment) as url:
        spark = local_session("failing tasks", master=url, config=CONFIG)
        try:
            executors = spark.sparkContext._jsc.sc().statusTracker()
            wait_until(lambda: len(executors.getExecutorInfos()) > len(HOSTS), "two executors")  # the driver counts
            stories = Stories(root, spark)
            for how in told:
                stories.tell(how)
        finally:
            spark.stop()


if __name__ == "__main__":
    end_cleanly()
    main(Path(sys.argv[1]), sys.argv[2:] or list(STORIES))
