"""A writer that may promise nothing more stops, and a call that cannot be right is refused: each reason by itself."""

from __future__ import annotations

import errno
import shutil
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from xxhash import xxh64_intdigest

import seglog
from seglog import LogConfig, MemoryStorage, Retention
from seglog.errors import LogPoisoned, PlanStale, ReentrantCall
from seglog.log.compaction import is_current
from seglog.log.copied import CopyWriter
from seglog.log.durability import Durability
from seglog.log.history import Trace
from seglog.storage import LocalStorage
from seglog.testing.faulty import WRITING, Fault, FaultyStorage
from seglog.topic.read_trace import Passage, from_json, to_json

if TYPE_CHECKING:
    from pathlib import Path


def test_a_sync_whose_check_of_the_directory_fails_acknowledges_nothing(tmp_path: Path) -> None:
    storage = FaultyStorage(LocalStorage(tmp_path / "log"))
    log = seglog.open(storage)
    log.append(b"v")
    checks = [call for call in storage.calls if call.operation in ("is_current", "identity")]
    assert checks
    storage.fault = Fault(operations=frozenset({"is_current"}), error=errno.EIO)
    with pytest.raises(LogPoisoned) as caught:
        log.sync()
    assert caught.value.errno == errno.EIO
    assert log.failure is not None
    assert log.durable_offset == 0
    storage.fault = None
    log.close()


def test_a_batch_that_fails_and_cannot_be_taken_back_stops_the_writer(tmp_path: Path) -> None:
    storage = FaultyStorage(LocalStorage(tmp_path / "log"))
    log = seglog.open(storage, LogConfig(segment_bytes=512))
    table = pa.table({"value": [b"x" * 100] * 40})
    storage.fault = Fault(operations=frozenset({"create"}), name=".store", at=3, error=errno.ENOSPC, forever=True)
    with pytest.raises(LogPoisoned, match="could not be rolled back"):
        log.append_batch(table)
    assert log.failure is not None
    with pytest.raises(LogPoisoned):
        log.append(b"v")
    storage.fault = None
    log.close()
    with seglog.open(tmp_path / "log") as again:
        assert all(record.value == b"x" * 100 for record in again.scan())


def test_a_close_whose_sync_fails_is_poison_for_those_that_wait(tmp_path: Path) -> None:
    storage = FaultyStorage(LocalStorage(tmp_path / "log"))
    log = seglog.open(storage)
    log.append(b"v")
    durability = log._state.durability  # type: ignore[attr-defined] # closed, the log itself no longer tells
    storage.fault = Fault(operations=frozenset({"datasync"}), name=".store", error=errno.EIO)
    with pytest.raises(LogPoisoned):
        log.close()
    assert durability.failure is not None


def test_nobody_waits_for_what_can_no_longer_become_durable() -> None:
    durability = Durability(0)
    poison = LogPoisoned(errno.EIO, "a sync failed", "log")

    def sync_written() -> int:
        durability.fail(poison)  # another sync, as that of a roll, fails meanwhile
        return 5

    with pytest.raises(LogPoisoned, match="a sync failed"):
        durability.wait(5, sync_written)
    assert durability.durable_offset == 0
    with pytest.raises(LogPoisoned, match="a sync failed"):
        durability.wait(5, lambda: 5)


@pytest.mark.parametrize("config", [LogConfig(), LogConfig(buffer_bytes=1000), LogConfig(flush_records=2)])
def test_a_chunk_generator_that_appends_to_the_log_it_is_appended_to_is_refused(config: LogConfig) -> None:
    with seglog.open(MemoryStorage(), config) as log:
        refused: list[BaseException] = []

        def chunks() -> Any:
            yield b"one "
            for call in (
                lambda: log.append(b"inside"),
                lambda: log.append_batch(pa.table({"value": [b"inside"]})),
                lambda: log.truncate(0),
                log.sync,
            ):
                try:
                    call()
                except ReentrantCall as error:
                    refused.append(error)
            yield b"two"

        log.append_stream(chunks())
        assert len(refused) == 4
        assert [record.value for record in log.scan()] == [b"one two"]


KEYED = LogConfig(segment_bytes=512, retention=Retention(compact=True))


def keyed(path: Path) -> Any:
    log = seglog.open(path, KEYED)
    for number in range(60):
        log.append(b"value %d" % number, key=b"key %d" % (number % 5))
    return log


def test_a_compaction_ends_when_its_log_is_truncated_meanwhile(tmp_path: Path) -> None:
    with keyed(tmp_path / "log") as log:

        def progress(*_: object) -> None:
            if log.next_offset > 10:
                cutting = threading.Thread(target=lambda: log.truncate(10))
                cutting.start()
                cutting.join()

        with pytest.raises(PlanStale, match="while it was compacted"):
            log.compact(progress=progress)
        assert log.next_offset == 10
        assert log.verify().ok


def test_a_plan_is_of_one_log(tmp_path: Path) -> None:
    with keyed(tmp_path / "log") as log:
        plan = log.plan_compaction()
        assert is_current(log.view().manifest, plan)
        assert not is_current(log.view().manifest, replace(plan, log_id=plan.log_id ^ 1))


def test_a_pin_behind_a_cut_moves_back_to_it(tmp_path: Path) -> None:
    with keyed(tmp_path / "log") as log:
        log.pin("copy", 50)
        log.truncate(20)
        for number in range(60):
            log.append(b"other %d" % number, key=b"key")
        assert log.pins == {"copy": 20}


def test_what_was_read_is_told_with_the_epoch_after_it() -> None:
    for after in (Trace("a", 1, 4), Trace("a", 2, 4)):
        passage = Passage(Trace("a", 1, 3), after)
        assert from_json(to_json([(("orders", 0), passage)])) == {("orders", 0): passage}


def test_in_the_directory_of_another_log_nothing_is_written_before_that_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    storage = FaultyStorage(LocalStorage(path))
    log: Any = seglog.open(storage, KEYED)
    for number in range(60):
        log.append(b"value %d" % number, key=b"key")
    plan, live = log.plan_compaction(), log._state.live
    shutil.rmtree(path)
    with seglog.open(path) as other:
        other.append(b"of another log")
        for call in (
            lambda: live.swap(live.catalog.current.segments[:-1], [], retire=[]),
            lambda: log._compactor._refuse_if_gone(plan),
        ):
            storage.calls.clear()
            with pytest.raises(LogPoisoned):
                call()
            assert not [one for one in storage.calls if one.operation in WRITING]
        with pytest.raises(LogPoisoned):
            live._forget(other.view().manifest.active)  # a file of the other log, if it has the same name
        assert other.view().manifest.active.name() in {file.name for file in path.iterdir()}
        with pytest.raises(LogPoisoned):
            log.sync()
        log.close()
        assert other.verify().ok


def test_a_log_does_not_close_its_files_for_others_within_a_call_on_it(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as opened:
        log: Any = opened
        suspended = []

        def chunks() -> Any:
            yield b"one "
            suspended.append(log._files.suspend())
            yield b"two"

        log.append_stream(chunks())
        assert suspended == [False]
        assert log._files.suspend()
        assert log.read(0).value == b"one two"


def test_an_empty_log_whose_directory_was_replaced_is_not_repaired(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = seglog.open(path)
    shutil.rmtree(path)
    with seglog.open(path) as other:
        other.append(b"of another log")
        with pytest.raises(LogPoisoned):
            log.repair()
        log.close()
        assert other.verify().ok


def test_a_chunk_generator_that_uses_the_key_of_its_append_is_refused() -> None:
    with seglog.Broker(MemoryStorage()) as broker:
        topic = broker.create_topic("orders", partitions=2)

        def chunks() -> Any:
            with pytest.raises(ReentrantCall, match="once='key'"):
                topic.append(b"v", partition=1, once="key")
            yield b"v"

        topic.append_stream(chunks(), partition=0, once="key", digest=xxh64_intdigest(b"v"))
        assert [topic.partition(number).next_offset for number in range(2)] == [1, 0]


def test_what_a_mirror_has_appended_is_on_the_disk_once_it_synced(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as opened:
        log: Any = opened
        log.append(b"v")
        assert log.durable_offset == 0
        CopyWriter(log).sync()
        assert log.durable_offset == 1
