"""Cancelling and closing: whoever waits gets an answer, and what was not begun is not written."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
import seglog.aio
from tests.aio.stories import Held
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, HANG_SECONDS))


def run_alone(story: Coroutine[Any, Any, None]) -> None:
    """As `run`, without a task around the story."""

    async def timed() -> None:
        async with asyncio.timeout(HANG_SECONDS):
            await story

    asyncio.run(timed())


async def several(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        await asyncio.sleep(0)
        yield piece


def test_a_cancelled_append_disturbs_no_other(place: Any) -> None:
    async def story() -> None:
        async with await seglog.aio.open(place) as log:
            held = Held(log)
            first = asyncio.create_task(log.append(b"under way"))
            await asyncio.to_thread(held.entered.wait)
            waiting = asyncio.create_task(log.append(b"not begun"))
            third = asyncio.create_task(log.append(b"third"))
            await asyncio.sleep(0)
            first.cancel()
            waiting.cancel()
            await asyncio.sleep(0)
            held.go_on.set()
            assert await third == 1
            assert first.cancelled()
            assert waiting.cancelled()
            assert [record.value async for record in log.scan()] == [b"under way", b"third"]

    run(story())


def test_closing_writes_what_tasks_wait_for(place: Any) -> None:
    async def story() -> None:
        log = await seglog.aio.open(place)
        held = Held(log)
        first = asyncio.create_task(log.append(b"0"))
        await asyncio.to_thread(held.entered.wait)
        rest = [asyncio.create_task(log.append(b"%d" % number)) for number in range(1, 20)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(log.close())
        await asyncio.sleep(0)
        with pytest.raises(seglog.LogClosed):
            await log.append(b"too late")
        held.go_on.set()
        await closing
        assert await asyncio.gather(first, *rest) == list(range(20))
        async with await seglog.aio.open(place) as again:
            assert [record.value async for record in again.scan()] == [b"%d" % number for number in range(20)]

    run(story())


def test_a_closed_log_says_so_and_does_not_hang(place: Any) -> None:
    async def story() -> None:
        log = await seglog.aio.open(place)
        await log.append(b"v")
        await log.close()
        await log.close()
        calls: list[Any] = [
            lambda: log.append(b"v"),
            lambda: log.append_stream(several(b"v")),
            lambda: log.append_batch(pa.table({"value": pa.array([b"v"], pa.binary())})),
            lambda: log.truncate(0),
            log.expire,
            log.sync,
            lambda: log.read(0),
            lambda: log.offset_at(0),
            log.to_arrow,
            lambda: anext(log.scan()),
            lambda: anext(log.follow(0)),
        ]
        for call in calls:
            with pytest.raises(seglog.LogClosed):
                await call()

    run(story())


def test_opening_fails_as_the_log_does(place: Any) -> None:
    async def story() -> None:
        with pytest.raises(seglog.LogNotFound):
            await seglog.aio.open(place, mode="r")
        async with await seglog.aio.open(place):
            with pytest.raises(seglog.LogLocked):
                await seglog.aio.open(place)
        async with await seglog.aio.open(place):
            pass

    run(story())


def test_a_cancelled_close_closes_all_the_same_and_the_next_one_waits_for_it(place: Any) -> None:
    async def story() -> None:
        log = await seglog.aio.open(place)
        held = Held(log)
        append = asyncio.create_task(log.append(b"v"))
        await asyncio.to_thread(held.entered.wait)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(log.close(), 0.01)
        second = asyncio.create_task(log.close())
        await asyncio.sleep(0)
        assert not second.done()
        held.go_on.set()
        await second
        assert await append == 0
        async with await seglog.aio.open(place) as again:
            assert again.next_offset == 1

    run(story())


async def cancel_all() -> None:
    """Cancel every other task, as programs do that end, and wait for them."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def test_a_program_that_cancels_all_its_tasks_can_close_the_log(place: Any) -> None:
    async def story() -> None:
        log = await seglog.aio.open(place)
        held = Held(log)
        appends = [asyncio.create_task(log.append(b"%d" % number)) for number in range(3)]
        await asyncio.to_thread(held.entered.wait)
        closing = asyncio.create_task(log.close())
        await asyncio.sleep(0)
        await cancel_all()
        assert closing.cancelled()
        assert all(append.cancelled() for append in appends)
        held.go_on.set()
        await log.close()
        await log.close()
        async with await seglog.aio.open(place) as again:
            assert again.next_offset in (1, 3)

    run_alone(story())


def test_an_append_returns_whatever_other_tasks_are_cancelled(place: Any) -> None:
    async def story() -> None:
        async with await seglog.aio.open(place) as log:
            held = Held(log)
            append = asyncio.create_task(log.append(b"v"))
            await asyncio.to_thread(held.entered.wait)
            for task in asyncio.all_tasks() - {asyncio.current_task(), append}:
                task.cancel()
            held.go_on.set()
            assert await append == 0

    run_alone(story())


def test_a_log_left_open_by_one_event_loop_can_be_used_and_closed_in_another(place: Any) -> None:
    logs: list[Any] = []

    async def leave() -> None:
        logs.append(await seglog.aio.open(place))
        logs.append(Held(logs[0]))
        tasks.extend(asyncio.create_task(logs[0].append(b"%d" % number)) for number in range(2))
        await asyncio.to_thread(logs[1].entered.wait)

    async def go_on() -> None:
        logs[1].go_on.set()
        assert await logs[0].append(b"later") in (1, 2)
        await logs[0].close()

    tasks: list[Any] = []
    run_alone(leave())
    run_alone(go_on())
    with seglog.open(place) as log:
        assert log.read(log.next_offset - 1).value == b"later"
