"""A signal handler closes a broker, or a topic, in the middle of a call on it: the process ends and nothing is lost."""

from __future__ import annotations

import gc
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

import seglog
from seglog import Broker, LogConfig
from tests.deadlocks import in_time
from tests.log.moments import at_moments

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULES = (
    "topic/broker.py",
    "topic/open_topics.py",
    "topic/opening.py",
    "topic/reading.py",
    "topic/topic.py",
    "appending.py",
    "topic/idempotency/memory.py",
    "groups.py",
    "groups/offsets.py",
    "consumer.py",
    "writer_state.py",
)


def serve(broker: Broker, acknowledged: list[bytes]) -> None:
    """Do what a small service does with a broker."""
    for number in range(2):
        name = f"topic-{number}"
        topic = broker.create_topic(name, config=LogConfig(flush_records=1))
        for turn in range(2):
            value = b"%d %d" % (number, turn)
            topic.append(value, once=f"key-{turn}")
            acknowledged.append(value)
        with broker.consumer("group", [name]) as consumer:
            consumer.poll(timeout=0)
            consumer.commit()
    broker.delete_topic("topic-0")
    acknowledged[:] = [value for value in acknowledged if not value.startswith(b"0")]
    broker.sync()


@pytest.mark.parametrize("ends", [True, False], ids=["closes and exits", "closes"])
def test_a_handler_closes_a_broker_at_any_moment(ends: bool) -> None:
    def story() -> None:
        last = at_moments(lambda: serve(Broker(seglog.MemoryStorage()), []), (), MODULES, lambda: None)
        for moment in range(1, last, 31):
            storage = seglog.MemoryStorage()
            broker = Broker(storage)
            acknowledged: list[bytes] = []

            called: list[int] = []

            def handle(broker: Broker = broker, called: list[int] = called) -> None:
                called.append(1)
                broker.close()
                if ends:
                    raise SystemExit

            with suppress(SystemExit, seglog.LogClosed):
                at_moments(partial(serve, broker, acknowledged), {moment}, MODULES, handle, raises=ends)
            if not called:
                break
            if ends:  # the process is gone, and with it a log whose close the exit came before
                del broker, handle
                gc.collect()
            with Broker(storage) as again:
                names = again.topics()
                kept = [record.value for name in names for record in again.topic(name).partition(0).scan()]
                assert not again.failed
            gone = [value for value in acknowledged if b"topic-%c" % value[0] not in [n.encode() for n in names]]
            assert set(kept) >= set(acknowledged) - set(gone), f"at moment {moment}"
            assert len(kept) <= len(acknowledged) + 1

        assert moment > 300, "hardly anything was interrupted"

    gc.freeze()  # what other tests left is not looked at each time
    try:
        in_time(story)
    finally:
        gc.unfreeze()


def test_an_append_from_within_the_append_of_the_same_key_is_refused() -> None:
    with Broker(seglog.MemoryStorage()) as broker:
        topic = broker.create_topic("orders")

        def chunks() -> Iterator[bytes]:
            topic.append(b"inner", once="key")
            yield b"outer"

        def story() -> None:
            with pytest.raises(seglog.ReentrantCall):
                topic.append_stream(chunks(), once="key", digest=0)

        in_time(story)
        assert topic.partition(0).next_offset == 0
