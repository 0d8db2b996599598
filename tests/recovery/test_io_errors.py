"""A medium that refuses: what failed is undone or the writer stops; what was acknowledged is never touched.

The numbers are those of the list of what the log must survive (docs/reliability.md).
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.storage import LocalStorage
from seglog.testing.faulty import SYNCING, WRITING, Fault, FaultyStorage
from seglog.testing.internals import syncer_of

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64)
KEEP = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=600))
DATA_SYNC = frozenset({"datasync"})
PUTTING = frozenset({"pwrite", "pwritev"})
REFUSABLE = WRITING - SYNCING


def value(number: int) -> bytes:
    return b"value %04d " % number * 4


def fill(log: seglog.Log, ledger: Any) -> None:
    ledger.append(log, 20)


def roll(log: seglog.Log, ledger: Any) -> None:
    ledger.append(log, 12)


def append_batch(log: seglog.Log, ledger: Any) -> None:
    ledger.append_batch(log, 4)


def append_large_batch(log: seglog.Log, ledger: Any) -> None:
    ledger.append_batch(log, 17, pieces=True)


def append_stream(log: seglog.Log, ledger: Any) -> None:
    ledger.append_stream(log)
    log.sync()


def truncate(log: seglog.Log, ledger: Any) -> None:
    ledger.truncate(log, 7)


def append_and_sync(log: seglog.Log, ledger: Any) -> None:
    ledger.append(log)
    log.sync()


OPERATIONS = [roll, append_batch, append_large_batch, append_stream, truncate, append_and_sync]
NAMES = [operation.__name__ for operation in OPERATIONS]


def table(*values: bytes) -> pa.Table:
    return pa.table({"value": values})


@pytest.fixture
def faulty(scene: Any) -> FaultyStorage:
    return FaultyStorage(LocalStorage(scene.path))


# --- 15. a failed sync ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("policy", ["sync", "flush_records"])
def test_15_a_failed_sync_poisons_the_writer_for_good_and_reads_go_on_up_to_the_durable_offset(
    scene: Any, faulty: FaultyStorage, error: int, policy: str
) -> None:
    log = seglog.open(faulty, seglog.LogConfig(flush_records=None if policy == "sync" else 100))
    log.append(b"durable", timestamp=1)
    log.sync()
    faulty.fault = Fault(operations=DATA_SYNC, error=error)  # once: the next sync would succeed, and prove nothing
    with pytest.raises(seglog.LogPoisoned) as caught:
        for number in range(100):
            log.append(b"lost %d" % number, timestamp=2)
        log.sync()
    assert caught.value.errno == error
    refused: list[Callable[[], object]] = [
        lambda: log.append(b"x"),
        lambda: log.append_batch(table(b"x")),
        lambda: log.append_stream([b"x"]),
        lambda: log.truncate(0),
        log.sync,
        log.expire,
    ]
    for call in refused:
        with pytest.raises(seglog.LogPoisoned):
            call()
    assert (log.durable_offset, log.next_offset) == (1, 1)
    assert log.read(0).value == b"durable"
    with pytest.raises(seglog.OffsetOutOfRange):
        log.read(1)
    assert [record.value for record in log.scan()] == [b"durable"]
    assert log.to_arrow()["value"].to_pylist() == [b"durable"]
    assert log.offset_at(1) == 0
    assert log.offset_at(2) is None
    log.close()
    assert scene.values()[0] == b"durable"


def test_15_a_failed_sync_in_another_thread_stops_everybody_who_waits(faulty: FaultyStorage) -> None:
    log = seglog.open(faulty)
    log.append(b"x")
    faulty.fault = Fault(operations=DATA_SYNC, error=errno.EIO)
    with pytest.raises(seglog.LogPoisoned):
        log.sync()
    with pytest.raises(seglog.LogPoisoned):
        syncer_of(log)._wait(1)  # a thread that waited meanwhile


def test_15_close_after_a_failed_sync_gives_the_lock_back(scene: Any, faulty: FaultyStorage) -> None:
    log = seglog.open(faulty)
    log.append(b"x")
    faulty.fault = Fault(operations=DATA_SYNC, error=errno.EIO, forever=True)
    with pytest.raises(seglog.LogPoisoned):
        log.close()
    log.close()
    seglog.open(scene.path).close()


@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
@pytest.mark.parametrize("error", [errno.EIO, pytest.param(errno.ENOSPC, marks=pytest.mark.no_cover)])
def test_15_wherever_a_sync_fails_the_writer_stops(
    laboratory: Any, check_survivor: Any, operation: Any, error: int
) -> None:
    laboratory.prepare(fill, SMALL)
    for run in laboratory.runs(operation, Fault(operations=SYNCING, error=error)):
        if run.storage.struck:
            assert isinstance(run.error, seglog.LogPoisoned)
            with pytest.raises(seglog.LogPoisoned):
                run.log.append(b"never")
            assert [record.value for record in run.log.scan(stop=7)] == [value(number) for number in range(7)]
        run.storage.crash()
        check_survivor(run.path, run.ledger)


# --- 16, 17. a failed write -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_16_a_batch_that_finds_no_space_is_rolled_back_whole(scene: Any, faulty: FaultyStorage, keep: float) -> None:
    log = seglog.open(faulty)
    log.append(b"before")
    size = scene.file().stat().st_size
    faulty.fault = Fault(operations=PUTTING, name=".store", error=errno.ENOSPC, keep=keep)
    with pytest.raises(seglog.StorageError) as caught:
        log.append_batch(table(*[b"x" * 1000] * 5000))  # several pieces
    assert caught.value.errno == errno.ENOSPC
    assert scene.file().stat().st_size == size
    assert [record.value for record in log.scan()] == [b"before"]
    assert log.append_batch(table(b"after")) == range(1, 2)
    log.close()
    assert scene.values() == [b"before", b"after"]


@pytest.mark.parametrize("at", [1, 2, 3])
def test_16_whichever_piece_of_a_batch_fails(scene: Any, faulty: FaultyStorage, at: int) -> None:
    log = seglog.open(faulty)
    faulty.fault = Fault(operations=PUTTING, name=".store", error=errno.ENOSPC, at=at, keep=0.5)
    with pytest.raises(seglog.StorageError):
        log.append_batch(table(*[b"x" * 1000] * 5000))
    assert (log.next_offset, scene.file().stat().st_size) == (0, 64)
    assert log.append(b"after") == 0
    log.close()
    assert scene.values() == [b"after"]


def test_16_buffered_records_stay_buffered_until_there_is_space(scene: Any, faulty: FaultyStorage) -> None:
    log = seglog.open(faulty, seglog.LogConfig(buffer_bytes=4096))
    log.append(b"one")
    faulty.fault = Fault(operations=PUTTING, name=".store", error=errno.ENOSPC, keep=0.5)
    with pytest.raises(seglog.StorageError):
        log.sync()
    assert log.append(b"two") == 1
    log.sync()
    assert [record.value for record in log.scan()] == [b"one", b"two"]
    log.close()
    assert scene.values() == [b"one", b"two"]


@pytest.mark.parametrize("keep", [0.0, pytest.param(0.5, marks=pytest.mark.no_cover)])
@pytest.mark.parametrize(
    "error",
    [
        errno.ENOSPC,
        pytest.param(errno.EINTR, marks=pytest.mark.no_cover),
        pytest.param(errno.EIO, marks=pytest.mark.proof),
    ],
)
@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
def test_16_18_an_operation_refused_at_any_step_leaves_the_old_state_and_may_be_tried_again(
    laboratory: Any, check_survivor: Any, content_of: Any, operation: Any, error: int, keep: float
) -> None:
    laboratory.prepare(fill, SMALL)
    for run in laboratory.runs(operation, Fault(operations=REFUSABLE, error=error, keep=keep)):
        if isinstance(run.error, seglog.LogPoisoned):
            pytest.fail("one refusal must not stop the writer: its rollback was possible")
        assert content_of(run.log) == run.ledger.content
        if run.error is not None:
            assert isinstance(run.error, seglog.StorageError)
            operation(run.log, run.ledger)
            assert content_of(run.log) == run.ledger.content
        run.log.close()
        check_survivor(run.path, run.ledger, lookups=False)


@pytest.mark.parametrize("keep", [0.0, pytest.param(0.5, marks=pytest.mark.no_cover)])
@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
def test_16_17_18_a_medium_that_goes_on_refusing_loses_nothing(
    laboratory: Any, check_survivor: Any, content_of: Any, operation: Any, keep: float
) -> None:
    laboratory.prepare(fill, SMALL)
    fault = Fault(operations=REFUSABLE, error=errno.ENOSPC, forever=True, keep=keep)
    for run in laboratory.runs(operation, fault):
        start, values = content_of(run.log)
        if isinstance(run.error, seglog.LogPoisoned):
            assert values[:20] == run.ledger.content[1][:20]
        else:
            assert (start, values) == run.ledger.content
        run.storage.crash()
        check_survivor(run.path, run.ledger, torn_head=keep > 0, lookups=False)


@pytest.mark.parametrize("rollback", ["truncate", "datasync"])
@pytest.mark.parametrize("how", ["append", "stream", "batch"])
def test_17_a_rollback_that_fails_poisons(scene: Any, faulty: FaultyStorage, rollback: str, how: str) -> None:
    log = seglog.open(faulty)
    log.append(b"before")
    log.sync()
    calls = PUTTING | {rollback}
    faulty.fault = Fault(operations=calls, name=".store", error=errno.EIO, forever=True, keep=0.5)
    with pytest.raises(seglog.LogPoisoned):
        if how == "append":
            log.append(b"lost")
        elif how == "stream":
            log.append_stream([b"lost"])
        else:
            log.append_batch(table(b"lost", b"too"))
    faulty.fault = None
    with pytest.raises(seglog.LogPoisoned):
        log.append(b"never")
    assert [record.value for record in log.scan()] == [b"before"]
    log.close()
    assert scene.values() == [b"before"]


def test_17_a_batch_of_many_segments_that_cannot_be_undone_poisons(scene: Any, faulty: FaultyStorage) -> None:
    log = seglog.open(faulty, SMALL)
    log.append(b"before")
    log.sync()
    faulty.fault = Fault(operations=REFUSABLE, error=errno.ENOSPC, at=12, forever=True)
    with pytest.raises(seglog.LogPoisoned):
        log.append_batch(table(*[b"x" * 100] * 30))
    faulty.fault = None
    with pytest.raises(seglog.LogPoisoned):
        log.append(b"never")
    assert log.read(0).value == b"before"
    assert log.next_offset <= log.durable_offset


def test_18_a_truncate_that_is_refused_takes_nothing_back_of_what_is_durable(faulty: FaultyStorage) -> None:
    with seglog.open(faulty, SMALL) as log:
        log.append_batch(table(*[b"x" * 100] * 10))
        log.sync()
        faulty.fault = Fault(operations=REFUSABLE, error=errno.ENOSPC, name="MANIFEST")
        with pytest.raises(seglog.StorageError):
            log.truncate(3)
        assert log.durable_offset == log.next_offset == 10


def test_16_a_batch_larger_than_what_retention_keeps_is_rolled_back_too(scene: Any, faulty: FaultyStorage) -> None:
    """Its own rolls deleted the records before it and its first ones: the log ends up empty, and undamaged."""
    log = seglog.open(faulty, KEEP)
    log.append(b"before")
    faulty.fault = Fault(operations=PUTTING, name="-8.store", error=errno.ENOSPC, at=2)
    with pytest.raises(seglog.StorageError):
        log.append_batch(table(*[b"x" * 100] * 60))
    assert (log.lowest_offset, log.next_offset, list(log.scan())) == (1, 1, [])
    assert log.append(b"after") == 1
    log.close()
    assert scene.values() == [b"after"]
