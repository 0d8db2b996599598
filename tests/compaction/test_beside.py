"""A compaction beside everything else: appends, readers, truncates, the end of the log, refusals, crashes."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

import seglog
from seglog.compaction.plan import CompactionPlan
from seglog.compaction.rewrite import Outcome, rewrite
from seglog.errors import (
    CompactionAborted,
    InvalidArgument,
    LogClosed,
    LogReadOnly,
    PlanStale,
    SeglogError,
    StorageError,
)
from seglog.log.staging import remove_stages, stage_directory
from seglog.storage import Subdirectory
from seglog.testing.crash_states import present
from seglog.testing.disk import Disk
from seglog.testing.disk_storage import DiskStorage
from seglog.testing.faulty import WRITING, Crashed, Fault, FaultyStorage
from seglog.testing.internals import storage_of
from tests.waiting import HANG_SECONDS

LEFT = ("store", "offsets", "times")
STORY = "a=1 b=1 c=1 | a=2 d=1 b- | a=3 c=2 |"
BEFORE = "a@0 b@1 c@2 a@3 d@4 b∅@5 a@6 c@7"
AFTER = "d@4 b∅@5 a@6 c@7"


def compact_and(log: seglog.Log, do: Any) -> Any:
    """Compact, and do something else once, in the middle of it."""
    done = []

    def progress(position: int, total: int) -> None:
        if not done:
            done.append(do())

    return log.compact(progress=progress)


def staged(log: seglog.Log) -> list[str]:
    return storage_of(log).names("staging")


# --- line 13: truncate, expire, close, remove -------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 4, 7])
def test_13_a_truncate_into_what_is_compacted_ends_the_pass(shop: Any, offset: int) -> None:
    with shop.open() as log:
        shop.put(log, STORY)
        with pytest.raises(PlanStale, match="truncated") as caught:
            compact_and(log, lambda: log.truncate(offset))
        assert isinstance(caught.value, CompactionAborted)
        assert caught.value.retriable
        assert shop.content(log) == " ".join(BEFORE.split()[:offset])
        assert (staged(log), log.verify().ok) == ([], True)
        log.compact()


def test_a_truncate_behind_what_is_compacted_does_not_matter(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, STORY + " x y")
        compact_and(log, lambda: log.truncate(9))
        assert shop.content(log) == AFTER + " x@8"


def test_13_an_expiry_of_a_source_ends_the_pass(shop: Any, clock: Any) -> None:
    with shop.open(bytes=400) as log:
        shop.put(log, "a b | a c | a d |")
        with pytest.raises(PlanStale):
            compact_and(log, lambda: shop.put(log, "e=" + "x" * 300 + " |"))
        assert staged(log) == []
        assert log.verify().ok


@pytest.mark.parametrize("end", ["close", "remove"])
def test_13_the_end_of_the_log_ends_the_pass(shop: Any, end: str) -> None:
    log = shop.open()
    shop.put(log, STORY)
    with pytest.raises(LogClosed):
        compact_and(log, getattr(log, end))
    if end == "close":
        with shop.open() as again:
            assert again.recovery.clean
            assert shop.content(again) == BEFORE
            assert staged(again) == []


def test_only_one_compaction_at_a_time(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, STORY)

        def second() -> None:
            with pytest.raises(CompactionAborted, match="another compaction of this log is running"):
                log.compact()

        compact_and(log, second)
        assert shop.content(log) == AFTER


def test_an_abort_leaves_everything_as_it_was(shop: Any) -> None:
    for after in range(20):
        with shop.open() as log:
            if log.next_offset == 0:
                shop.put(log, STORY)
            names, calls = [one.name for one in log.segments], iter(range(1000))
            try:
                log.compact(abort=lambda: next(calls) >= after)  # noqa: B023 - asked within this turn
            except CompactionAborted:
                assert [one.name for one in log.segments] == names
                assert (shop.content(log), staged(log)) == (BEFORE, [])
            else:
                assert after > 4
                assert shop.content(log) == AFTER
                return
    pytest.fail("it never came to its end")


# --- appends and readers ----------------------------------------------------------------------------------------------


def test_appends_go_on_while_a_log_is_compacted(local: Any) -> None:
    with local.open(segment_bytes=16384) as log:
        expected: dict[bytes, bytes] = {}
        stop = threading.Event()

        def append() -> None:
            number = 0
            while not stop.is_set():
                key, value = b"%d" % (number % 37), b"%d" % number
                log.append(value, key=key)
                expected[key] = value
                number += 1

        writer = threading.Thread(target=append)
        writer.start()
        try:
            for _ in range(10):
                time.sleep(0.01)
                log.compact()
        finally:
            stop.set()
            writer.join()
        assert {record.key: record.value for record in log.scan()} == expected
        assert log.verify().ok
        offsets = [record.offset for record in log.scan()]
        assert offsets == sorted(set(offsets))
        assert offsets[-1] + 1 == log.next_offset


READER = """
import sys, seglog
with seglog.open(sys.argv[1], mode="r") as log:
    view = log.scan()
    print(next(view).offset, flush=True)
    sys.stdin.readline()
    print([record.offset for record in view], flush=True)
    print([record.offset for record in log.scan()], flush=True)
    tail = log.tail(0)
    print([record.offset for record in tail.poll(2)], flush=True)
    sys.stdin.readline()
    print([record.offset for record in tail.poll()], flush=True)
"""


def test_readers_in_other_processes_are_undisturbed(local: Any) -> None:
    with local.open() as log:
        local.put(log, STORY)
        with subprocess.Popen(
            [sys.executable, "-c", READER, str(local.place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as reader:
            assert reader.stdin is not None and reader.stdout is not None

            def answer() -> Any:
                return json.loads(reader.stdout.readline())

            def go_on() -> None:
                reader.stdin.write("\n")
                reader.stdin.flush()

            assert answer() == 0
            log.compact()
            go_on()
            assert answer() == [1, 2, 3, 4, 5, 6, 7]  # the view it had begun with
            assert answer() == [4, 5, 6, 7]
            assert answer() == [4, 5]
            local.put(log, "a=4 |")
            log.compact()
            go_on()
            assert answer() == [7, 8]
            assert reader.wait(HANG_SECONDS) == 0


def test_a_view_of_this_process_is_undisturbed(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, STORY)
        under_way = log.scan()
        assert next(under_way).offset == 0
        table = log.to_arrow()
        log.compact()
        assert [record.offset for record in under_way] == list(range(1, 8))
        assert table["offset"].to_pylist() == list(range(8))


def test_a_reader_cannot_compact(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, STORY)
        with seglog.open(shop.place, mode="r") as reader:
            for call in (reader.compact, reader.plan_compaction):
                with pytest.raises(LogReadOnly):
                    call()


# --- another process does the work ------------------------------------------------------------------------------------


ELSEWHERE = """
import json, sys
from seglog.compaction.plan import CompactionPlan
from seglog.compaction.rewrite import rewrite
from seglog.storage import LocalStorage, Subdirectory
root, directory = sys.argv[1:]
plan = CompactionPlan.from_json(json.load(sys.stdin))
output = Subdirectory(LocalStorage(root), directory)
output.make([])
print(json.dumps(rewrite(plan, LocalStorage(root), output).to_json()))
"""


def test_another_process_rewrites_and_the_log_swaps(local: Any, clock: Any) -> None:
    with local.open() as log:
        local.put(log, STORY)
        plan = log.plan_compaction()
        directory = stage_directory("compact-elsewhere", clock())
        done = subprocess.run(
            [sys.executable, "-c", ELSEWHERE, str(local.place), directory],
            input=json.dumps(plan.to_json()),
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        local.put(log, "z")
        outcome = Outcome.from_json(json.loads(done.stdout))
        report = log.finish_compaction(plan, outcome, directory)
        assert (report.superseded, local.content(log)) == (4, AFTER + " z@8")
        with pytest.raises(PlanStale):  # the same a second time
            log.finish_compaction(plan, outcome, directory)
        remove_stages(storage_of(log), "compact-elsewhere")
        assert log.verify().ok


def test_an_outcome_of_another_plan_is_refused(shop: Any, clock: Any) -> None:
    with shop.open() as log:
        shop.put(log, STORY)
        plan = log.plan_compaction()
        assert CompactionPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
        directory = stage_directory("compact-x", clock())
        output = Subdirectory(storage_of(log), directory)
        output.make([])
        outcome = rewrite(plan, storage_of(log), output)
        shop.put(log, "e |")
        with pytest.raises(InvalidArgument, match="another plan"):
            log.finish_compaction(log.plan_compaction(), outcome, directory)
        log.finish_compaction(plan, outcome, directory)
        assert shop.content(log) == AFTER + " e@8"


def test_what_a_pass_wrote_elsewhere_is_on_the_medium_with_its_names_when_it_returns(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, STORY)
        disk = Disk(recording=True)
        output = DiskStorage(disk)
        output.make([])
        outcome = rewrite(log.plan_compaction(), storage_of(log), output)
        names = {entry.name(kind) for part in outcome.parts if part.staged for entry in part.entries for kind in LEFT}
        assert names
        for state in present(disk).states(sample=50):
            assert names <= set(DiskStorage(Disk(state.image)).names())


def test_a_store_is_synced_while_a_pass_writes_it_so_that_its_last_sync_is_short(shop: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("seglog.compaction.output.SYNC_BYTES", 1)
    with shop.open() as log:
        shop.put(log, STORY)
        output = FaultyStorage(seglog.MemoryStorage())
        output.make([])
        rewrite(log.plan_compaction(), storage_of(log), output)
    synced = [call.name for call in output.calls if call.operation == "datasync"]
    assert synced
    assert all(synced.count(name) > 1 for name in synced)


# --- rate, progress, space --------------------------------------------------------------------------------------------


def test_progress_ends_at_its_end(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, STORY)
        steps: list[tuple[int, int]] = []
        log.compact(progress=lambda done, total: steps.append((done, total)))
        assert steps == sorted(steps)
        assert steps[-1][0] == steps[-1][1] > 0


def test_a_rate_is_kept(shop: Any) -> None:
    with shop.open(segment_bytes=2**20) as log:
        for number in range(500):
            log.append(b"x" * 100, key=b"%d" % (number % 10))
        shop.put(log, "|")
        begun = time.monotonic()
        log.compact(bytes_per_second=500_000)
        assert time.monotonic() - begun > 0.25  # two times 69,000 bytes read
        with pytest.raises(InvalidArgument, match="bytes_per_second"):
            log.compact(bytes_per_second=0)


def test_20_free_space_is_looked_at_before_anything_is_written(shop: Any, monkeypatch: Any) -> None:
    with shop.open() as log:
        shop.put(log, STORY)
        monkeypatch.setattr(type(storage_of(log)), "free_bytes", lambda self, directory="": 100)
        with pytest.raises(StorageError, match="100 are free") as caught:
            log.compact()
        assert caught.value.errno == errno.ENOSPC
        assert (shop.content(log), staged(log)) == (BEFORE, [])
        monkeypatch.undo()
        log.compact()
        assert shop.content(log) == AFTER


# --- refusals and crashes at every call -------------------------------------------------------------------------------


def calls_of_a_compaction(shop: Any) -> int:
    storage = FaultyStorage(seglog.MemoryStorage())
    shop.place = storage
    with shop.open() as log:
        shop.put(log, STORY)
        storage.calls.clear()
        log.compact()
        return sum(call.operation in WRITING for call in storage.calls)


@pytest.mark.parametrize("error", [errno.EIO, None])
def test_13_a_refusal_or_a_crash_at_any_call_shows_all_or_nothing(shop: Any, error: int | None) -> None:
    count = calls_of_a_compaction(shop)
    assert count > 10
    for at in range(1, count + 1):
        inner = seglog.MemoryStorage()
        storage = FaultyStorage(inner)
        shop.place = storage
        log = shop.open()
        shop.put(log, STORY)
        storage.fault = Fault(at=at, error=error, keep=0.5)
        with suppress(SeglogError, Crashed):
            log.compact()
        storage.fault = None
        if not storage.crashed:
            log.close()
        shop.place = inner
        with shop.open() as again:
            assert shop.content(again) in (BEFORE, AFTER), at
            assert again.next_offset == 8
            assert again.verify().ok
            assert again.recovery.clean, again.recovery  # nothing to set aside: it was all staged
            again.compact()
            assert shop.content(again) == AFTER


def test_a_refused_sync_of_any_output_ends_the_pass_and_changes_nothing(shop: Any) -> None:
    synced, at = 1, 0
    while at < synced:
        at += 1
        shop.place = storage = FaultyStorage(seglog.MemoryStorage())
        with shop.open() as log:
            for part in range(4):
                shop.put(log, " ".join(f"k{key}={part}" for key in range(40 * part, 40 * part + 70)) + " |")
            before, records = log.view().manifest.segments, list(log.scan())
            storage.calls.clear()
            storage.fault = Fault(operations=frozenset({"datasync"}), name=".store", at=at, error=errno.EIO)
            with pytest.raises(StorageError):
                log.compact()
            assert (log.view().manifest.segments, list(log.scan()), staged(log)) == (before, records, [])
            storage.calls.clear()
            assert log.compact().rewritten
            synced = sum(call.operation == "datasync" and ".store" in call.name for call in storage.calls)
            assert synced > 1
