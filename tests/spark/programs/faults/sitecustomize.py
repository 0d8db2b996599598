"""On the path of a Spark that a test has started, and so loaded by every Python of it, which then dies, or is slow,
where a file tells it to.

CONTROL names a file of JSON that is read at every place where something may happen, so that it can change while
Spark runs. What happened is appended to the same name with `.log`.

    {"driver": PLACE, "batch": N}         kill -9 of the whole session at a place of batch N: "staged" (every task has
                                          reported, nothing is published), "linked" (the files of a partition have
                                          their names, no manifest knows them), "halfway" (the transaction is written,
                                          the first partition has its share), "published" (before the cleaning up)
    {"task": DEATH, "partition": N}       the attempt at task N that comes here first, "exit": ends after staging
                                          everything; "kill": kill -9 in the middle; "executor": kill -9 of the
                                          executor; "slow": waits until the batch is published without it; or "every"
                                          attempt ends. Which came first is known by a file named with `.taken`.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from seglog.log.live_segments import LiveSegments
from seglog.log.writer import LogWriter
from seglog.spark.write.destination import Destination, Publication, find
from seglog.spark.write.task import StagingTask

CONTROL = "SEGLOG_TEST_CONTROL"
PATIENCE = 600.0  # seconds that a slow task waits for the others


def control() -> dict[str, Any]:
    try:
        return dict(json.loads(Path(os.environ[CONTROL]).read_text()))
    except FileNotFoundError:
        return {}


def note(what: str) -> None:
    with Path(os.environ[CONTROL] + ".log").open("a") as log:
        log.write(what + "\n")


def first() -> bool:
    """Tell whether this is the first attempt that asks."""
    try:
        Path(os.environ[CONTROL] + ".taken").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def session() -> list[int]:
    """Return the processes of this session but this one, in the order in which they were started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                if os.getsid(int(entry.name)) == os.getsid(0):
                    found.append(int(entry.name))
            except ProcessLookupError:
                continue
    return sorted(found)


def end(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def driver_reaches(place: str, batch: int) -> None:
    wanted = control()
    if wanted.get("driver") == place and wanted.get("batch") == batch:
        note(f"{place} {batch}")
        for process in [*session(), os.getpid()]:
            end(process)


def before(owner: Any, name: str, action: Any) -> None:
    """Let a method of a class begin with `action`, called as the method is."""
    original = getattr(owner, name)

    def replaced(*positional: Any, **named: Any) -> Any:
        action(*positional, **named)
        return original(*positional, **named)

    setattr(owner, name, replaced)


def spoil_the_driver() -> None:
    shares: dict[tuple[str, int], int] = {}

    def share(_log: Any, _staged: Any, *, query: str, batch: int) -> None:
        shares[query, batch] = shares.get((query, batch), 0) + 1
        if shares[query, batch] == 2:
            driver_reaches("halfway", batch)

    def begin(_segments: Any, _entry: Any, _sealed: Any, **changes: Any) -> None:
        for batch in changes.get("published", {}).values():
            driver_reaches("linked", batch)

    before(Publication, "publish", lambda _found, _staged, *, query, batch: driver_reaches("staged", batch))
    before(Destination, "clean", lambda _found, _query, batch: driver_reaches("published", batch))
    before(LogWriter, "publish", share)
    before(LiveSegments, "_begin", begin)


def task_dies(how: str) -> None:
    note(f"{how} {os.getpid()}")
    if how == "executor":
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        end(int(daemon.rpartition(")")[2].split()[1]))
    if how == "kill":
        end(os.getpid())
    os._exit(1)


def spoil_the_tasks() -> None:
    finish = StagingTask.finish

    def finishing(task: Any) -> Any:
        wanted, context = control(), TaskContext.get()
        how = wanted.get("task")
        if how is None or context is None or context.partitionId() != wanted["partition"]:
            return finish(task)
        if how != "every" and not first():
            return finish(task)
        if how == "slow":
            task._write()
            note(f"slow {os.getpid()}")
            found, deadline = find(task._path, task._topic), time.monotonic() + PATIENCE
            query, _, batch = task._batch.rpartition("-")
            while not found.is_committed(query, int(batch)) and time.monotonic() < deadline:
                time.sleep(0.01)
            note(f"late {os.getpid()}")
            return finish(task)
        if how in ("kill", "executor"):
            task._write()
            task_dies(how)
        finish(task)
        return task_dies(how)

    StagingTask.finish = finishing  # type: ignore[assignment, method-assign] # what this module is for


spoil_the_driver()
spoil_the_tasks()
