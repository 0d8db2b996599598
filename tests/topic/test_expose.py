"""Topics, brokers and consumers that show only what is synced; and waiting for a lock."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

import seglog
import seglog.aio
from seglog import Broker, LocalStorage, Topic
from seglog.log.locks.write_lock import try_lock_log, try_lock_tree
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_readers_of_a_topic_see_its_records_once_they_are_synced(tmp_path: Path) -> None:
    with Broker(tmp_path / "shop") as writing, Broker(tmp_path / "shop", mode="r", expose="durable") as reading:
        topic = writing.create_topic("orders")
        topic.append(b"synced")
        writing.sync()
        topic.append(b"not yet")
        with Topic.open(tmp_path / "shop" / "orders", mode="r", expose="durable") as alone:
            for shown in (reading.topic("orders"), alone):
                log = shown.partition(0)
                assert [record.value for record in log.scan()] == [b"synced"]
                with pytest.raises(seglog.NotDurableYet):
                    log.read(1)
                with pytest.raises(seglog.OffsetOutOfRange):
                    log.read(2)
        writing.sync()
        assert reading.topic("orders").partition(0).read(1).value == b"not yet"


def test_a_reader_that_begins_after_the_synced_records_is_told_so_and_a_tail_waits(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as writing, seglog.open(tmp_path / "log", mode="r", expose="durable") as log:
        writing.append(b"synced")
        writing.sync()
        writing.append(b"not yet")
        for read in (log.scan, log.batches, log.to_arrow):
            with pytest.raises(seglog.NotDurableYet):
                read(2)
            with pytest.raises(seglog.OffsetOutOfRange):
                read(3)
        tail = log.tail(2)
        assert tail.poll() == []
        writing.append(b"third")
        writing.sync()
        assert [record.value for record in tail.poll()] == [b"third"]


def test_a_consumer_whose_position_is_after_the_synced_records_waits_there(tmp_path: Path) -> None:
    with Broker(tmp_path / "shop") as writing, Broker(tmp_path / "shop", mode="r", expose="durable") as reading:
        topic = writing.create_topic("orders")
        topic.append(b"synced")
        writing.sync()
        topic.append(b"not yet")
        with reading.consumer("billing", ["orders"], share=(0, 1)) as consumer:
            consumer.poll()
            consumer._cursor.seek(("orders", 0), 2)  # where another consumer, which reads all records, has committed
            assert consumer.poll() == []
            topic.append(b"third")
            writing.sync()
            assert [record.value for record in consumer.poll()] == [b"third"]


@pytest.mark.parametrize("options", [{"expose": "durable"}, {"mode": "r", "expose": "all"}])
def test_what_is_exposed_is_checked(tmp_path: Path, options: Any) -> None:
    Broker(tmp_path / "shop").close()
    with pytest.raises(seglog.InvalidArgument, match="expose"):
        Broker(tmp_path / "shop", **options)


def made_topic(path: Path, **options: Any) -> Topic:
    """Create a topic, or open it."""
    return (
        Topic.open(path, **options) if (path / "topic.json").exists() else Topic.create(path, partitions=1, **options)
    )


@pytest.mark.parametrize("opened", [seglog.open, Broker, made_topic], ids=["log", "broker", "topic"])
def test_opening_waits_for_the_lock_if_it_is_told_to(tmp_path: Path, opened: Callable[..., Any]) -> None:
    held = opened(tmp_path / "held")
    for wait in (None, 0, 0.06):
        with pytest.raises(seglog.LogLocked, match="wait=10 waits"):
            opened(tmp_path / "held", wait=wait)
    for wrong in (-1, float("nan"), "1", True):
        with pytest.raises((seglog.InvalidArgument, seglog.InvalidType), match="wait"):
            opened(tmp_path / "held", wait=wrong)
    thread = threading.Thread(target=held.close)
    thread.start()
    opened(tmp_path / "held", wait=HANG_SECONDS).close()
    thread.join()


def test_a_log_waits_for_another_backup_to_the_same_place_if_it_is_told_to(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append(b"first")
        log.backup(tmp_path / "copy")
        held = try_lock_log(LocalStorage(str(tmp_path / "copy")))
        assert held is not None
        for wait in (None, 0.06):
            with pytest.raises(seglog.LogLocked, match="wait=10 waits"):
                log.backup(tmp_path / "copy", wait=wait)
        log.append(b"second")
        thread = threading.Thread(target=held.release)
        thread.start()
        assert log.backup(tmp_path / "copy", wait=HANG_SECONDS).logs == 1
        thread.join()
    with seglog.open(tmp_path / "copy", mode="r") as copy:
        assert [record.value for record in copy.scan()] == [b"first", b"second"]


def test_creating_a_topic_waits_for_the_lock_of_its_directory(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    held = try_lock_tree(LocalStorage(str(tmp_path / "shop")))
    assert held is not None
    with pytest.raises(seglog.LogLocked, match=f"by this process \\({os.getpid()}\\)"):
        Topic.create(tmp_path / "shop", partitions=1, wait=0.06)
    thread = threading.Thread(target=held.release)
    thread.start()
    Topic.create(tmp_path / "shop", partitions=1, wait=HANG_SECONDS).close()
    thread.join()


def test_an_awaited_log_waits_for_the_lock_and_the_event_loop_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        held = seglog.open(tmp_path / "log")
        with pytest.raises(seglog.LogLocked):
            await seglog.aio.open(tmp_path / "log")
        with pytest.raises(seglog.InvalidArgument):
            await seglog.aio.open(tmp_path / "log", wait=-1)
        opening = asyncio.create_task(seglog.aio.open(tmp_path / "log", wait=HANG_SECONDS))
        await asyncio.sleep(0)
        held.close()
        async with await opening as log:
            await log.append(b"v")

    asyncio.run(asyncio.wait_for(story(), HANG_SECONDS))


def test_a_cancelled_opening_leaves_no_log_open(tmp_path: Path) -> None:
    async def story() -> None:
        opening = asyncio.create_task(seglog.aio.open(tmp_path / "log", wait=HANG_SECONDS))
        await asyncio.sleep(0)  # it has begun on a thread
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(asyncio.wait_for(story(), HANG_SECONDS))
    seglog.open(tmp_path / "log", wait=HANG_SECONDS).close()
