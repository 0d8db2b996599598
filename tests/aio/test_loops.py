"""Every awaited call of a log, on asyncio and on trio. Cancelled tasks lose and double nothing; close always closes."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pyarrow as pa
import pytest

import seglog
import seglog.aio
from seglog import LogConfig, Retention
from seglog.types import Draft
from tests.aio.stories import Held, batch, gather
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def test_a_log_answers_every_call(run: Any, place: Any, tmp_path: Any) -> None:
    async def several() -> AsyncIterator[bytes]:
        yield b"a"
        await anyio.sleep(0)
        yield b"b"

    async def story() -> None:
        config = LogConfig(retention=Retention(compact=True), segment_bytes=512, buffer_bytes=100)
        async with await seglog.aio.open(place, config) as log:
            offsets = await gather(*(log.append(b"%d" % number, key=b"k") for number in range(200)))
            assert sorted(offsets) == list(range(200))
            assert await log.append_each([Draft(b"v", b"k"), Draft(b"w", b"k", expected_offset=9)]) != [200, 201]
            assert await log.append_stream(several(), key=b"k") == 201
            assert await log.append_batch(batch(b"x", b"y")) == range(202, 204)
            assert await log.append_at(210, seglog.Record(0, 5, b"z", b"z")) == 210
            await log.flush()
            await log.sync()
            assert log.durable_offset == log.next_offset == 211
            assert (await log.read(201)).value == b"ab"
            assert (await log.read_cut(201, 1)).offset == 201
            assert [record.offset for record in await log.read_many([203, 202, 201])] == [203, 202, 201]
            assert (await log.read_keys([b"z", b"absent"]))[b"z"].offset == 210
            assert [record.offset async for record in log.scan(202, 205)] == [202, 203]
            assert sum([rows.num_rows async for rows in log.batches(max_records=7)]) == 205
            assert (await log.to_arrow(0, 3, values="view")).num_rows == 3
            assert await log.offset_at(0) == 0
            assert log.records_from(202) >= 3
            assert [record.offset async for record in log.follow(203, timeout=0)] == [203, 210]
            tail = await log.tail(200)
            assert [record.offset for record in await tail.poll(2)] == [200, 201]
            assert tail.position == 202
            await log.pin("reader", 3)
            assert await log.pins == {"reader": 3}
            await log.unpin("reader")
            assert (await log.standing()).dirty_bytes > 0
            assert (await log.explain(0)).offset == 0
            assert await log.explain_key(b"k")
            await log.plan_compaction()
            assert (await log.compact(roll=True)).superseded > 190
            assert (await log.verify()).ok
            await log.repair()
            assert await log.backup(tmp_path / "copy")
            await log.alter(retention=Retention(age=60))
            assert log.config.retention.age == 60
            await log.alter(compression="lz4")
            assert log.config.compression == "lz4"
            await log.alter(segment_age=3600)
            assert log.config.segment_age == 3600
            assert await log.expire() == 0
            await log.truncate(203)
            assert await log.published("q") is None
            await log.check_staged(())
            assert await log.publish((), query="q", batch=0) is not None
            assert (await log.view()).next_offset == log.next_offset
            assert log.is_ready(1) in (True, False)
            assert (log.failure, log.closed, bool(log)) == (None, False, True)
            assert len(log) == log.next_offset - log.lowest_offset
            assert log.path and log.size and log.segments and log.recovery.clean
            assert pa.table(log).num_rows > 0
            await log.fence(7)
            with pytest.raises(seglog.LogFenced):
                await log.append(b"v", key=b"k")
        assert log.closed

    run(story)


def test_a_task_waits_until_a_copy_has_its_record(run: Any, tmp_path: Any) -> None:
    async def story() -> None:
        async with await seglog.aio.open(tmp_path / "log") as log:
            offset, epoch = await log.append(b"v"), log.epoch
            with pytest.raises(seglog.NotMirrored, match=r"after 0\.01 s, 0 of 1 copies"):
                await log.mirrored(offset, timeout=0.01)
            with pytest.raises(seglog.OffsetOutOfRange):
                await log.mirrored(1)
            copied: list[bool] = []

            async def wait() -> None:
                await log.mirrored(offset, epoch=epoch)
                copied.append(True)

            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await anyio.sleep(0.01)
                assert not copied
                with seglog.Mirror(tmp_path / "log", tmp_path / "copy") as mirror:
                    for _ in range(3):
                        await anyio.to_thread.run_sync(mirror.step)
            assert copied
            assert await log.mirrored_offset() == 1

    run(story)


def test_a_removed_log_is_gone(run: Any, tmp_path: Any) -> None:
    async def story() -> None:
        log = await seglog.aio.open(tmp_path / "log")
        await log.append(b"v")
        await log.remove()
        assert not (tmp_path / "log").exists()
        with pytest.raises(seglog.LogClosed):
            await log.append(b"v")
        await log.close()

    run(story)


def test_a_cancelled_append_is_written_or_not_and_the_others_are_written_once(run: Any, place: Any) -> None:
    async def story() -> None:
        async with await seglog.aio.open(place) as log:
            held = Held(log)
            done: list[int] = []

            async def append(number: int, scope: anyio.CancelScope) -> None:
                with scope:
                    done.append(await log.append(b"%d" % number))

            scopes = [anyio.CancelScope() for _ in range(3)]
            async with anyio.create_task_group() as group:
                group.start_soon(append, 0, scopes[0])
                await held.reached()
                group.start_soon(append, 1, scopes[1])
                group.start_soon(append, 2, scopes[2])
                await anyio.sleep(0.01)
                scopes[0].cancel()
                scopes[1].cancel()
                await anyio.sleep(0.01)
                held.go_on.set()
            assert done == [1]
            assert [record.value async for record in log.scan()] == [b"0", b"2"]

    run(story)


def test_storms_of_cancellations_lose_and_double_nothing(run: Any, tmp_path: Any) -> None:
    async def story() -> None:
        choose = random.Random(24)
        acknowledged: set[bytes] = set()
        log = await seglog.aio.open(tmp_path / "log", LogConfig(segment_bytes=4096, flush_records=50))

        async def append(value: bytes) -> None:
            with anyio.move_on_after(choose.choice([0, 0.0005, 0.002, 5])):
                offset = await log.append(value)
                acknowledged.add(value)
                assert offset >= 0

        for _ in range(20):
            async with anyio.create_task_group() as group:
                for _ in range(50):
                    group.start_soon(append, choose.randbytes(8))
                if choose.random() < 0.3:
                    await anyio.sleep(0.001)
                    group.cancel_scope.cancel()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await log.close()
        await log.close()
        with seglog.open(tmp_path / "log") as again:
            stored = [record.value for record in again.scan()]
        assert len(stored) == len(set(stored))
        assert acknowledged <= set(stored)

    run(story)


def test_a_close_that_is_cancelled_closes_without_the_event_loop(run: Any, tmp_path: Any) -> None:
    held: list[Held] = []

    async def story() -> None:
        log = await seglog.aio.open(tmp_path / "log")
        held.append(Held(log))
        async with anyio.create_task_group() as group:
            group.start_soon(log.append, b"begun")
            await held[0].reached()
            with anyio.CancelScope() as scope:
                scope.cancel()
                await log.close()
            group.cancel_scope.cancel()

    run(story)
    held[0].go_on.set()  # the loop has ended
    with seglog.open(tmp_path / "log", wait=HANG_SECONDS) as again:
        assert [record.value for record in again.scan()] == [b"begun"]


def test_a_cancelled_compaction_changes_nothing(run: Any, tmp_path: Any) -> None:
    async def story() -> None:
        config = LogConfig(retention=Retention(compact=True), segment_bytes=2000)
        async with await seglog.aio.open(tmp_path / "log", config) as log:
            await log.append_batch(batch(*[b"%d" % (number % 10) for number in range(1000)]))
            started = threading.Event()

            async def compact() -> None:
                await log.compact(roll=True, abort=lambda: bool(started.set()), bytes_per_second=1)

            await log.append_batch(batch(*[b"%d" % (number % 10) for number in range(1000)]))
            before = [record async for record in log.scan()]
            async with anyio.create_task_group() as group:
                group.start_soon(compact)
                while not started.is_set():
                    await anyio.sleep(0.001)
                group.cancel_scope.cancel()
            assert [record async for record in log.scan()] == before
            while True:  # the first one ends soon, and the next one can run
                try:
                    await log.compact(roll=True)
                except seglog.CompactionAborted:
                    await anyio.sleep(0.001)
                else:
                    break

    run(story)


def test_a_cancelled_poll_of_a_tail_takes_nothing(run: Any, place: Any) -> None:
    async def story() -> None:
        async with await seglog.aio.open(place) as log:
            await gather(*(log.append(b"v") for _ in range(100)))
            tail = await log.tail(0)
            seen: list[int] = []
            choose = random.Random(24)
            while len(seen) < 100:
                with anyio.move_on_after(choose.choice([0, 0.0001, 1])):
                    seen.extend(record.offset for record in await tail.poll(7))
            assert seen == list(range(100))

    run(story)


def test_opening_that_is_cancelled_leaves_no_log_open(run: Any, tmp_path: Any) -> None:
    async def story() -> None:
        for seconds in (0, 0, 0.0005, 0.001, 0.002):
            with anyio.move_on_after(seconds):
                log = await seglog.aio.open(tmp_path / "log", wait=HANG_SECONDS)
                await log.close()
            with anyio.move_on_after(seconds):
                await (await seglog.aio.AsyncBroker.open(tmp_path / "broker", wait=HANG_SECONDS)).close()
        async with await seglog.aio.open(tmp_path / "log", wait=HANG_SECONDS) as log:
            await log.append(b"v")
        async with await seglog.aio.AsyncBroker.open(tmp_path / "broker", wait=HANG_SECONDS) as broker:
            assert await broker.topics() == []

    run(story)
