"""Random appends, polls, cancellations, closings and failing storages: nothing is lost, doubled or left hanging."""

from __future__ import annotations

import gc
import random
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import seglog
import seglog.aio
from seglog import LogConfig
from seglog.serializers import JSON
from seglog.types import Draft
from tests.storage.guide import DictStorage
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = (0, 0.0003, 0.002, 5)
BACKENDS = ("asyncio", pytest.param("trio", marks=pytest.mark.proof))  # test_loops.py runs on both in `make test`


class Storm:
    """One run: what was acknowledged, and errors that no task should get."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.place = DictStorage()
        self.acknowledged: set[bytes] = set()

    async def rage(self) -> None:
        choose = self.choose
        broker = await seglog.aio.AsyncBroker.open(self.place)
        config = LogConfig(flush_records=choose.choice([None, 1, 7]), segment_bytes=4096)
        topic = await broker.create_topic("orders", partitions=choose.choice([1, 3, 20]), config=config)
        typed = await broker.topic("orders", value_serializer=JSON)
        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(self._append, topic, typed, number)
            group.start_soon(self._consume, broker)
            await anyio.sleep(choose.choice([0, 0.002, 0.02]))
            end = choose.choice(["nothing", "close", "cancel", "topic"])
            if end == "close":
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await broker.close()
            elif end == "cancel":
                group.cancel_scope.cancel()
            elif end == "topic":
                await topic.close()
        await broker.close()

    async def _append(self, topic: Any, typed: Any, number: int) -> None:
        value = b"%d" % number
        calls: list[Callable[[], Any]] = [
            lambda: topic.append(value, key=value),
            lambda: topic.append(value, key=value, once=f"once-{number}"),
            lambda: typed.append(number, key=value),
            lambda: topic.append_stream([value]),
            lambda: topic.partition(0).append(value),
            lambda: topic.writer(0).append(Draft(value)),
        ]
        with anyio.move_on_after(self.choose.choice(PATIENCE)):
            try:
                await self.choose.choice(calls)()
                self.acknowledged.add(value)
            except seglog.LogClosed:
                pass

    async def _consume(self, broker: seglog.aio.AsyncBroker) -> None:
        with anyio.move_on_after(self.choose.choice([0.001, 0.01, 0.05])):
            try:
                async with await broker.consumer("billing", ["orders"]) as consumer:
                    while True:
                        with anyio.move_on_after(self.choose.choice(PATIENCE)):
                            await consumer.poll(max_records=5, timeout=0.01)
            except seglog.LogClosed:
                pass

    def check(self) -> None:
        with seglog.Broker(self.place) as broker:
            topic = broker.topic("orders")
            stored = [record.value for number in range(topic.partitions) for record in topic.records(number)]
        assert len(stored) == len(set(stored)), "doubled"
        assert self.acknowledged <= set(stored), "lost"


def in_time(story: Callable[[], Any], backend: str) -> None:
    async def timed() -> None:
        with anyio.fail_after(HANG_SECONDS):
            await story()

    anyio.run(timed, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_storms_on_a_broker_lose_and_double_nothing_and_leave_no_thread(backend: str) -> None:
    before = set(threading.enumerate())
    for seed in range(8):
        storm = Storm(seed)
        in_time(storm.rage, backend)
        storm.check()
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("seglog"):
            thread.join(HANG_SECONDS)
            assert not thread.is_alive()


class Failing(DictStorage):  # type: ignore[misc] # the page's example has no types
    """Raises an error that no storage should raise, at the n-th write or sync."""

    def __init__(self) -> None:
        super().__init__()
        self.fault: BaseException | None = None
        self.left = 0

    def open(self, name: str, *, writable: bool = False) -> Any:
        return FailingFile(super().open(name, writable=writable), self)


class FailingFile:
    def __init__(self, file: Any, storage: Failing) -> None:
        self._file, self._storage = file, storage

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._file, name)
        if name not in ("pwrite", "pwritev", "datasync"):
            return call
        self._storage.left -= 1
        if self._storage.left == 0 and self._storage.fault is not None:
            raise self._storage.fault
        return call


@pytest.mark.parametrize("error", [RuntimeError("odd"), OSError("odd"), StopIteration("odd"), MemoryError()], ids=repr)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_storage_that_raises_anything_hangs_no_task_and_loses_nothing(backend: str, error: BaseException) -> None:
    for left in range(1, 40, 9):
        place, acknowledged = Failing(), set()
        config = LogConfig(flush_records=5, segment_bytes=700)

        async def append(log: seglog.aio.AsyncLog, value: bytes, done: set[bytes]) -> None:
            try:
                await log.append(value)
                done.add(value)
            except Exception as raised:  # noqa: BLE001 - the storage's error, or what it led to
                assert isinstance(raised, (seglog.SeglogError, type(error), RuntimeError))

        async def story(
            place: Any = place, acknowledged: Any = acknowledged, left: int = left, append: Any = append
        ) -> None:
            log = await seglog.aio.open(place, config)  # noqa: B023 - the same for every run
            place.left, place.fault = left, error
            async with anyio.create_task_group() as group:
                for number in range(30):
                    group.start_soon(append, log, b"%d" % number, acknowledged)
            try:
                await log.close()
            except Exception as raised:  # noqa: BLE001 - as above
                assert isinstance(raised, (seglog.SeglogError, type(error), RuntimeError))

        in_time(story, backend)
        place.fault = None
        gc.collect()
        with seglog.open(place, mode="r") as log:
            stored = [record.value for record in log.scan()]
        assert len(stored) == len(set(stored))
        assert acknowledged <= set(stored)
