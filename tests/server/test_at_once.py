"""A coroutine that is begun at once goes on in a task as if it had begun there."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import suppress

import pytest

from seglog.server.runtime.at_once import begin
from tests.waiting import HANG_SECONDS


def test_one_that_does_not_wait_has_ended():
    done = []

    async def work():
        done.append(await inner())

    async def inner():
        return 3

    assert begin(work()) is None
    assert done == [3]


def test_an_error_before_it_waits_is_raised():
    async def work():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        begin(work())


def test_the_rest_waits_as_often_as_it_wants_and_returns_its_result():
    async def check():
        first, lock = asyncio.get_running_loop().create_future(), asyncio.Lock()

        async def work():
            found = await first
            await asyncio.sleep(0)
            async with lock, asyncio.timeout(HANG_SECONDS):
                return found + await asyncio.create_task(later())

        async def later():
            return 4

        rest = asyncio.create_task(begin(work()))
        await asyncio.sleep(0)
        first.set_result(3)
        assert await rest == 7

    asyncio.run(check())


def test_an_error_of_what_it_waits_for_is_raised_in_it():
    async def check():
        first = asyncio.get_running_loop().create_future()

        async def work():
            try:
                await first
            except ValueError:
                return "handled"

        rest = begin(work())
        first.set_exception(ValueError("no"))
        assert await rest == "handled"

    asyncio.run(check())


def test_a_cancelled_one_may_still_wait_while_it_ends():
    async def check():
        ended = []

        async def work():
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await asyncio.sleep(0)
                ended.append(True)

        rest = asyncio.create_task(begin(work()))
        await asyncio.sleep(0)
        rest.cancel()
        with pytest.raises(asyncio.CancelledError):
            await rest
        assert ended

    asyncio.run(check())


def test_one_that_is_cancelled_before_it_goes_on_ends_in_order():
    async def check():
        ended = []

        async def work():
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await asyncio.sleep(0)
                ended.append(True)

        rest = asyncio.create_task(begin(work()))
        rest.cancel()
        with pytest.raises(asyncio.CancelledError):
            await rest
        assert ended

    asyncio.run(check())


def test_one_that_is_closed_is_ended_there():
    ended = []

    async def check():
        async def work():
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append(True)

        begin(work()).close()

    asyncio.run(check())
    assert ended


def test_what_a_request_holds_is_freed_when_it_is_refused_and_waits_for_no_garbage_collection():
    class Records:
        pass

    async def work(waits, seen):
        records = Records()
        seen.append(weakref.ref(records))
        with suppress(ValueError):
            await waits.pop()

    async def main():
        seen, future = [], asyncio.get_running_loop().create_future()
        task = asyncio.create_task(begin(work([future], seen)))
        future.set_exception(ValueError())
        del future
        await task
        del task
        return seen[0]()

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(main()) is None
    finally:
        gc.enable()
