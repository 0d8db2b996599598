"""The log for asyncio: many tasks, one log; errors reach the task they belong to, and the event loop is never held."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
import seglog.aio
from seglog import LogConfig
from seglog.testing.internals import active_of
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, HANG_SECONDS))


async def several(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        await asyncio.sleep(0)
        yield piece


@pytest.mark.parametrize("config", [{}, {"flush_records": 1}, {"segment_bytes": 1024, "buffer_bytes": 300}])
def test_many_tasks_append_and_each_gets_its_offset(place: Any, config: Any) -> None:
    async def story() -> None:
        async with await seglog.aio.open(place, LogConfig(**config)) as log:
            offsets = await asyncio.gather(*(log.append(b"%d" % number, key=b"k") for number in range(500)))
            assert offsets == list(range(500)), "tasks are served in the order they came"
            assert [record.value async for record in log.scan()] == [b"%d" % number for number in range(500)]
            assert (await log.read(7)).key == b"k"
            if config.get("flush_records"):
                assert log.durable_offset == 500
            assert (log.lowest_offset, log.next_offset) == (0, 500)

    run(story())


def test_tasks_that_wait_for_the_medium_share_syncs(tmp_path: Any) -> None:
    syncs = []

    class Counting(seglog.LocalStorage):
        def open(self, name: str, *, writable: bool = False) -> Any:
            file = super().open(name, writable=writable)
            return Counted(file) if writable else file

    class Counted:
        def __init__(self, file: Any) -> None:
            self._file = file

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def datasync(self) -> None:
            syncs.append(1)
            self._file.datasync()

    async def story() -> None:
        async with await seglog.aio.open(Counting(tmp_path / "orders"), LogConfig(flush_records=1)) as log:
            syncs.clear()
            await asyncio.gather(*(log.append(b"v") for _ in range(200)))
            assert log.durable_offset == 200
            assert len(syncs) <= 3

    run(story())


def test_an_error_goes_to_the_task_that_made_it(place: Any) -> None:
    async def story() -> None:
        async with await seglog.aio.open(place, LogConfig(segment_bytes=512)) as log:
            calls = [
                log.append(b"a"),
                log.append("text"),  # type: ignore[arg-type] # the wrong type is the test
                log.append(b"b", expected_offset=99),
                log.append(b"v" * 10_000),
                log.append(b"c"),
            ]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            kinds = [type(answer) for answer in answers]
            assert kinds == [int, seglog.InvalidType, seglog.OffsetConflict, seglog.RecordTooLarge, int]
            assert [record.value async for record in log.scan()] == [b"a", b"c"]
            with pytest.raises(seglog.OffsetOutOfRange):
                await log.read(2)
            with pytest.raises(seglog.OffsetOutOfRange):
                await log.truncate(3)
            with pytest.raises(seglog.InvalidType):
                await log.append_batch([1])

    run(story())


def test_a_failed_sync_fails_every_task_it_was_for(place: Any) -> None:
    async def story() -> None:
        log = await seglog.aio.open(place, LogConfig(flush_records=1))
        inner: Any = log.log

        def fail() -> None:
            raise seglog.LogPoisoned(5, "a sync failed", "orders")

        active_of(inner).datasync = fail
        answers = await asyncio.gather(*(log.append(b"v") for _ in range(20)), return_exceptions=True)
        assert [type(answer) for answer in answers] == [seglog.LogPoisoned] * 20
        with pytest.raises(seglog.LogPoisoned):
            await log.append(b"v")
        await log.close()

    run(story())


def test_every_other_call_is_that_of_the_log(place: Any) -> None:
    async def story() -> None:
        async with await seglog.aio.open(place) as log:
            table = pa.table({"value": pa.array([b"a", b"b", b"c"], pa.binary()), "timestamp": [10, 20, 30]})
            assert await log.append_batch(table) == range(3)
            await log.sync()
            assert log.durable_offset == 3
            assert await log.offset_at(15) == 1
            assert (await log.to_arrow(1)).column("value").to_pylist() == [b"b", b"c"]
            await log.truncate(2)
            assert log.next_offset == 2
            assert await log.expire() == 0
            async with await seglog.aio.open(place, mode="r") as reader:
                assert [record.offset async for record in reader.scan()] == [0, 1]
                with pytest.raises(seglog.LogReadOnly):
                    await reader.append(b"v")

    run(story())


# --- streams -----------------------------------------------------------------------------------------------------


def test_a_stream_comes_from_an_async_generator_or_any_iterable(place: Any) -> None:
    async def story() -> None:
        async with await seglog.aio.open(place) as log:
            assert await log.append_stream(several(b"a", b"", b"b"), key=b"k", timestamp=5, headers=[("h", b"x")]) == 0
            assert await log.append_stream([b"c", b"d"]) == 1
            assert await log.append_stream(several()) == 2
            assert await log.read(0) == seglog.Record(0, 5, b"k", b"ab", (("h", b"x"),))
            assert [record.value async for record in log.scan(1)] == [b"cd", b""]

    run(story())


def test_a_stream_longer_than_memory_is_worth(place: Any) -> None:
    async def story() -> None:
        chunk = bytes(range(250)) * 4000
        async with await seglog.aio.open(place) as log:
            await log.append_stream(several(chunk, chunk, chunk))
            assert (await log.read(0)).value == chunk * 3

    run(story())


def test_a_stream_that_overflows_or_fails_leaves_nothing(place: Any) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"v"
        raise ConnectionError("the sender is gone")

    async def story() -> None:
        async with await seglog.aio.open(place, LogConfig(segment_bytes=512)) as log:
            with pytest.raises(seglog.StreamOverflow) as caught:
                await log.append_stream(several(b"abc", b"def"), limit=5)
            assert caught.value.limit == 5
            with pytest.raises(seglog.StreamOverflow):
                await log.append_stream(several(*[b"v" * 100] * 20))
            with pytest.raises(ConnectionError, match="the sender is gone"):
                await log.append_stream(failing())
            for wrong in (5, None):
                with pytest.raises(seglog.InvalidType):
                    await log.append_stream(wrong)  # type: ignore[arg-type] # the wrong type is the test
            with pytest.raises(seglog.InvalidType, match="chunk of the stream"):
                await log.append_stream(several(b"v", "text"))  # type: ignore[arg-type] # as above
            assert log.next_offset == 0
            assert await log.append(b"next") == 0

    run(story())


def test_a_slow_sender_holds_up_nobody(place: Any) -> None:
    async def story() -> None:
        more = asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield b"a"
            await more.wait()
            yield b"b"

        async with await seglog.aio.open(place) as log:
            stream = asyncio.create_task(log.append_stream(slow()))
            for number in range(10):
                assert await log.append(b"v") == number
            more.set()
            assert await stream == 10

    run(story())


# --- following ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["a", "r"])
def test_following_waits_for_what_comes(place: Any, mode: Any) -> None:
    async def story() -> None:
        async with await seglog.aio.open(place, LogConfig(segment_bytes=512)) as log:
            follower = log if mode == "a" else await seglog.aio.open(place, mode="r")
            seen: list[int] = []

            async def follow() -> None:
                async for record in follower.follow(0):
                    seen.append(record.offset)
                    if len(seen) == 50:
                        return

            task = asyncio.create_task(follow())
            for _ in range(50):
                await log.append(b"v" * 50)
            await task
            assert seen == list(range(50))
            await follower.close()

    run(story())


def test_workers_share_the_records_of_a_log(place: Any) -> None:
    async def story() -> None:
        async with await seglog.aio.open(place) as log:
            for _ in range(20):
                await log.append(b"v")
            for number in range(3):
                found = [record.offset async for record in log.follow(0, timeout=0, share=(number, 3))]
                assert found == list(range(number, 20, 3))
            with pytest.raises(seglog.InvalidArgument):
                await anext(aiter(log.follow(0, share=(3, 3))))

    run(story())


def test_a_follower_can_be_cancelled_and_the_log_goes_on(place: Any) -> None:
    async def story() -> None:
        async with await seglog.aio.open(place) as log:
            seen = asyncio.Event()

            async def follow() -> None:
                async for _ in log.follow(0):
                    seen.set()

            task = asyncio.create_task(follow())
            await log.append(b"v")
            await seen.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await log.append(b"w") == 1
            assert [record.value async for record in log.scan()] == [b"v", b"w"]

    run(story())


def test_a_follower_meets_a_cut_and_the_end_of_the_log(place: Any) -> None:
    async def story() -> None:
        log = await seglog.aio.open(place)
        for _ in range(3):
            await log.append(b"v")
        cut, closed = log.follow(0), log.follow(0)
        assert [(await anext(cut)).offset for _ in range(3)] == [0, 1, 2]
        assert (await anext(closed)).offset == 0
        await log.truncate(1)
        with pytest.raises(seglog.LogTruncated):
            await anext(cut)
        await log.close()
        with pytest.raises(seglog.SeglogError):
            while True:
                await anext(closed)

    run(story())
