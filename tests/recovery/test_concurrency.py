"""Two writers, forks, kills, and readers while the log changes under them.

The numbers are those of the list of what the log must survive (docs/reliability.md).
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.storage import LocalStorage
from seglog.testing.faulty import Fault, FaultyStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Newer Pythons warn of any fork of a process with threads; that is just what is tried here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

SMALL = seglog.LogConfig(segment_bytes=512)
VALUES = [b"value %04d " % number * 4 for number in range(20)]

HOLD = """
import sys, seglog
log = seglog.open(sys.argv[1])
log.append(b"theirs")
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(scene: Any) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the log open for writing."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(scene.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
        process.kill()


# --- 22: two writers ------------------------------------------------------------------------------------------------


def test_22_a_second_open_in_this_process_is_refused_at_once(scene: Any) -> None:
    with seglog.open(scene.path) as log:
        before = scene.snapshot()
        with pytest.raises(seglog.LogLocked) as caught:
            seglog.open(scene.path)
        assert caught.value.retriable
        assert scene.snapshot() == before
        assert log.append(b"mine") == 0
    seglog.open(scene.path).close()


def test_22_a_second_process_is_refused_at_once(scene: Any, holder: Any) -> None:
    before = scene.snapshot()
    for call in (lambda: seglog.open(scene.path), lambda: seglog.repair(scene.path)):
        with pytest.raises(seglog.LogLocked):
            call()
    assert scene.snapshot() == before
    with seglog.open(scene.path, mode="r") as log:
        assert log.read(0).value == b"theirs"


# --- 23: fork -------------------------------------------------------------------------------------------------------


def in_a_child(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - a child of a test must end here, whatever it met
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_23_a_forked_child_must_not_write_and_the_parent_goes_on(scene: Any) -> None:
    with seglog.open(scene.path) as log:
        log.append(b"before")

        def try_to_write() -> None:
            calls: list[Callable[[], object]] = [
                lambda: log.append(b"child"),
                lambda: log.append_stream([b"child"]),
                lambda: log.truncate(0),
                log.sync,
                log.remove,
            ]
            for call in calls:
                with pytest.raises(seglog.LogReadOnly):
                    call()
            assert log.read(0).value == b"before"
            log.close()

        assert in_a_child(try_to_write) == 0
        with pytest.raises(seglog.LogLocked):
            seglog.open(scene.path)
        assert log.append(b"after") == 1
    assert scene.values() == [b"before", b"after"]


def test_23_records_buffered_at_the_fork_are_written_once(scene: Any) -> None:
    with seglog.open(scene.path, seglog.LogConfig(buffer_bytes=4096)) as log:
        log.append(b"buffered")
        assert in_a_child(log.close) == 0
        log.append(b"after")
    assert scene.values() == [b"buffered", b"after"]


def test_23_a_child_may_open_another_log(scene: Any, tmp_path: Path) -> None:
    with seglog.open(scene.path):

        def write_elsewhere() -> None:
            with seglog.open(tmp_path / "other") as other:
                other.append(b"child")

        assert in_a_child(write_elsewhere) == 0
    with seglog.open(tmp_path / "other", mode="r") as other:
        assert other.read(0).value == b"child"


# --- 24: kill -9 ----------------------------------------------------------------------------------------------------


def test_24_after_kill_9_the_lock_is_free_and_the_record_is_there(scene: Any, holder: Any) -> None:
    holder.kill()
    holder.wait()
    with seglog.open(scene.path) as log:
        assert log.recovery.clean, log.recovery.events
        assert log.read(0).value == b"theirs"
        assert log.append(b"mine") == 1


# --- 25: readers while the log changes ------------------------------------------------------------------------------


def writer(path: Path) -> seglog.Log:
    log = seglog.open(path, seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=600)))
    for offset, value in enumerate(VALUES[: 20 - log.next_offset]):
        log.append(value, timestamp=offset)
    return log


CHANGES: dict[str, Callable[[seglog.Log], object]] = {
    "append": lambda log: log.append(b"more"),
    "roll": lambda log: [log.append(b"x" * 100) for _ in range(5)],
    "expire": lambda log: log.expire(),
    "truncate": lambda log: log.truncate(log.lowest_offset + 3),
    "truncate to nothing": lambda log: log.truncate(log.lowest_offset),
    "all of it": lambda log: [log.truncate(log.next_offset - 2), *(log.append(b"x" * 100) for _ in range(30))],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("how", ["the writer", "a reader"])
def test_25_a_scan_that_has_begun_sees_one_consistent_log(scene: Any, how: str, change: Any) -> None:
    with writer(scene.path) as log:
        reader = log if how == "the writer" else seglog.open(scene.path, mode="r")
        expected = [(record.offset, record.value) for record in reader.scan()]
        scans = [reader.scan() for _ in range(2)]
        batches = reader.batches(max_records=3)
        begun = [next(scan) for scan in scans]
        rows = next(batches).to_pylist()
        change(log)
        for scan, first in zip(scans, begun, strict=True):
            assert [(record.offset, record.value) for record in [first, *scan]] == expected
        rows += [row for batch in batches for row in batch.to_pylist()]
        assert [(row["offset"], row["value"]) for row in rows] == expected
        assert [record.value for record in reader.scan()] == [record.value for record in log.scan()]
        assert (reader.lowest_offset, reader.next_offset) == (log.lowest_offset, log.next_offset)
        reader.close()


def test_25_who_follows_across_a_truncate_gets_a_clear_error(scene: Any) -> None:
    with writer(scene.path) as log, seglog.open(scene.path, mode="r") as reader:
        for follower in (reader, log):
            tail = follower.tail(log.lowest_offset)
            assert len(tail.poll()) == len(log)
            log.truncate(log.next_offset - 2)
            log.append(b"other")
            log.append(b"other")
            log.append(b"other")
            with pytest.raises(seglog.LogTruncated, match="truncated"):
                tail.poll()


def test_25_who_follows_across_rolls_and_expiry_misses_nothing(scene: Any) -> None:
    with writer(scene.path) as log, seglog.open(scene.path, mode="r") as reader:
        tails = [log.tail(), reader.tail()]
        start, seen = log.next_offset, [[], []]
        for number in range(60):
            log.append(b"%d" % number + b"x" * 60)
            if number % 7 == 0:
                for tail, records in zip(tails, seen, strict=True):
                    records += tail.poll()
        for tail, records in zip(tails, seen, strict=True):
            records += tail.poll()
            assert [record.offset for record in records] == list(range(start, start + 60))


# --- 26: durable reads ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["append", "batch", "stream"])
def test_26_a_durable_reader_never_sees_an_unsynced_record(scene: Any, step: str) -> None:
    import pyarrow as pa  # noqa: PLC0415 - a second that the other tests need not wait

    def add(log: seglog.Log, number: int) -> None:
        value = b"%04d" % number + b"x" * 60
        if step == "append":
            log.append(value)
        elif step == "batch":
            log.append_batch(pa.table({"value": [value]}))
        else:
            log.append_stream([value])

    with seglog.open(scene.path, SMALL) as log, seglog.open(scene.path, mode="r", expose="durable") as reader:
        for number in range(40):
            add(log, number)
            seen = [record.offset for record in reader.scan()]
            assert len(seen) <= log.durable_offset
            assert reader.next_offset <= log.durable_offset
            with pytest.raises(seglog.NotDurableYet):
                reader.read(log.durable_offset)
            if number % 3 == 2:
                log.sync()
                assert [record.offset for record in reader.scan()] == list(range(number + 1))


def test_26_nor_one_whose_sync_failed(scene: Any) -> None:
    storage = FaultyStorage(LocalStorage(scene.path))
    log = seglog.open(storage)
    log.append(b"durable")
    log.sync()
    log.append(b"lost")
    storage.fault = Fault(operations=frozenset({"datasync"}), error=5)
    with pytest.raises(seglog.LogPoisoned):
        log.sync()
    log.close()
    with seglog.open(scene.path, mode="r", expose="durable") as reader:
        assert [record.value for record in reader.scan()] == [b"durable"]
