"""Batches with acks=all wait for their sync together: the next one is appended meanwhile, and answers stay in order."""

from __future__ import annotations

import errno
import socket
import struct
import threading
import tracemalloc
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seglog import LocalStorage, MemoryStorage
from seglog.kafka import codes, connection
from seglog.kafka.connection import MOST_WAITING
from seglog.kafka.messages.core import METADATA, PRODUCE
from seglog.kafka.messages.groups import LIST_GROUPS
from seglog.kafka.requests.produce import FEW_PARTS
from seglog.server.settings import Limits, Settings
from seglog.testing import kafka as testing
from seglog.testing.faulty import Fault, FaultyStorage
from seglog.testing.kafka import KafkaBroker
from tests.kafka.conftest import Raw, connected
from tests.kafka.producers import VERSION, batch_of, produce_of, produced
from tests.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from seglog.log.log import Log

ALL, WRITTEN, NONE = -1, 1, 0
MANY = MOST_WAITING + 10
SYNC = Fault(operations=frozenset({"datasync"}), name=".store", error=errno.EIO)


class Held(FaultyStorage):
    """A storage whose syncs of records wait until they are let on."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.gate = threading.Event()
        self.reached = threading.Event()  # by a sync

    def meet(self, operation: str, name: str, spill: Any = None) -> None:
        if operation == "datasync" and ".store" in name:
            self.reached.set()
            assert self.gate.wait(HANG_SECONDS)
        super().meet(operation, name, spill)

    @property
    def syncs(self) -> int:
        return sum(call.operation == "datasync" and ".store" in call.name for call in self.calls)


@pytest.fixture
def storage() -> Iterator[Held]:
    held = Held(MemoryStorage())
    held.gate.set()
    yield held
    held.gate.set()


@contextmanager
def serving(storage: Held) -> Iterator[KafkaBroker]:
    """Give a broker with the topic `orders`, whose syncs wait from now on."""
    with KafkaBroker(storage) as broker:
        broker.broker.create_topic("orders")
        storage.gate.clear()
        yield broker
        storage.gate.set()


@pytest.fixture
def kafka(storage: Held) -> Iterator[KafkaBroker]:
    with serving(storage) as broker:
        yield broker


@pytest.fixture
def impatient(storage: Held, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaBroker]:
    """The same, but with little patience for requests that do not arrive."""
    monkeypatch.setattr(testing, "Settings", partial(Settings, limits=Limits(idle_seconds=0.5)))
    with serving(storage) as broker:
        yield broker


@pytest.fixture
def raw(kafka: KafkaBroker) -> Iterator[Raw]:
    with connected(kafka.address) as opened:
        yield opened


def log_of(kafka: KafkaBroker) -> Log:
    return kafka.broker.topic("orders").partition(0)


def send(
    raw: Raw,
    correlation: int,
    value: bytes = b"v",
    acks: int = ALL,
    sequence: int | None = None,
    others: int = 0,
) -> None:
    """Send a batch. sequence: of the idempotent producer 77; others: partitions without records in the request."""
    head = {} if sequence is None else {"producer": 77, "epoch": 0, "sequence": sequence}
    body = produce_of([batch_of([value], **head), *([None] * others)], acks=acks)
    raw.request(PRODUCE.key, VERSION, body, correlation)


def answered(raw: Raw) -> tuple[int, int, int]:
    """Return the number of the next response, its error code and offset."""
    response = raw.response()
    return int.from_bytes(response[:4], "big"), *produced(response)


def is_silent(kafka: KafkaBroker, raw: Raw) -> bool:
    """Whether the server has sent nothing on a connection, after another one has been answered."""
    with connected(kafka.address) as other:
        other.ask(LIST_GROUPS, 0, {})
    raw.socket.setblocking(False)
    try:
        return not raw.socket.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    finally:
        raw.socket.settimeout(HANG_SECONDS)


def test_batches_are_appended_while_others_wait_and_share_a_sync(kafka: KafkaBroker, storage: Held, raw: Raw) -> None:
    before = storage.syncs
    for number in range(5):
        send(raw, number)
    until(lambda: log_of(kafka).next_offset == 5)
    assert is_silent(kafka, raw)
    storage.gate.set()
    assert [answered(raw) for _ in range(5)] == [(number, 0, number) for number in range(5)]
    assert storage.syncs - before <= 2


def test_as_many_batches_wait_as_a_connection_may_have(kafka: KafkaBroker, storage: Held, raw: Raw) -> None:
    for number in range(MANY):
        send(raw, number)
    until(lambda: log_of(kafka).next_offset == MOST_WAITING + 1)
    assert is_silent(kafka, raw)
    assert log_of(kafka).next_offset == MOST_WAITING + 1
    storage.gate.set()
    assert [answered(raw) for _ in range(MANY)] == [(number, 0, number) for number in range(MANY)]


def test_other_requests_begin_when_the_batches_before_them_are_durable(
    kafka: KafkaBroker, storage: Held, raw: Raw
) -> None:
    send(raw, 1)
    raw.send(METADATA, 4, {"topics": [{"name": "late"}], "allow_auto_topic_creation": True}, 2)
    send(raw, 3)
    until(lambda: log_of(kafka).next_offset == 1)
    assert is_silent(kafka, raw)
    assert "late" not in kafka.broker.topics()
    storage.gate.set()
    assert answered(raw) == (1, 0, 0)
    assert raw.response()[:4] == (2).to_bytes(4, "big")
    assert answered(raw) == (3, 0, 1)
    assert "late" in kafka.broker.topics()


def test_a_repeated_batch_is_answered_when_the_first_one_is_durable(
    kafka: KafkaBroker, storage: Held, raw: Raw
) -> None:
    send(raw, 1, sequence=0)
    send(raw, 2, sequence=1)
    until(lambda: log_of(kafka).next_offset == 2)
    with connected(kafka.address) as again:
        send(again, 3, sequence=0)
        send(again, 4, sequence=1)
        assert is_silent(kafka, again)
        storage.gate.set()
        assert [answered(again), answered(again)] == [(3, 0, 0), (4, 0, 1)]
    assert [answered(raw), answered(raw)] == [(1, 0, 0), (2, 0, 1)]
    assert log_of(kafka).next_offset == 2


def test_no_batch_is_acknowledged_if_the_sync_fails_and_a_repeated_one_is_stored_once(storage: Held) -> None:
    with KafkaBroker(storage) as kafka, connected(kafka.address) as raw:
        kafka.broker.create_topic("orders")
        storage.gate.clear()
        for number in range(3):
            send(raw, number, b"%d" % number, sequence=number)
        until(lambda: log_of(kafka).next_offset == 3)
        storage.fault = SYNC
        storage.gate.set()
        assert [answered(raw)[:2] for _ in range(3)] == [(n, codes.STORAGE_ERROR) for n in range(3)]
        send(raw, 3, b"0", sequence=0)
        assert answered(raw)[:2] == (3, codes.STORAGE_ERROR)
    storage.fault = None
    with KafkaBroker(storage) as kafka, connected(kafka.address) as raw:
        for number in range(4):
            send(raw, number, b"%d" % number, sequence=number)
        assert [answered(raw) for _ in range(4)] == [(number, 0, number) for number in range(4)]
        assert [record.value for record in log_of(kafka).scan()] == [b"0", b"1", b"2", b"3"]


def test_a_refused_batch_is_answered_after_those_before_it(kafka: KafkaBroker, storage: Held, raw: Raw) -> None:
    send(raw, 1, sequence=0)
    send(raw, 2, sequence=5)
    until(lambda: log_of(kafka).next_offset == 1)
    assert is_silent(kafka, raw)
    storage.gate.set()
    assert answered(raw) == (1, 0, 0)
    assert answered(raw)[:2] == (2, codes.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_a_request_that_is_not_valid_ends_the_connection_after_the_answers_before_it(
    kafka: KafkaBroker, storage: Held, raw: Raw
) -> None:
    send(raw, 1)
    raw.request(PRODUCE.key, 8, b"\xff\xff", 2)
    until(lambda: log_of(kafka).next_offset == 1)
    assert is_silent(kafka, raw)
    storage.gate.set()
    assert answered(raw) == (1, 0, 0)
    assert raw.response() == b""


def unknown(raw: Raw, _: KafkaBroker) -> None:
    raw.request(999, 0, b"")


def too_long(raw: Raw, _: KafkaBroker) -> None:
    raw.socket.sendall(struct.pack(">ihh", 2**30, METADATA.key, 8))


def cut(raw: Raw, _: KafkaBroker) -> None:
    raw.socket.sendall(struct.pack(">ihh", 80, METADATA.key, 8))


def without_memory(raw: Raw, kafka: KafkaBroker) -> None:
    memory = kafka._services.memory
    kafka._loop.call_soon_threadsafe(memory.change, "bodies", memory.size)
    until(lambda: memory.held["bodies"])
    raw.socket.sendall(struct.pack(">ihh", 2**20, PRODUCE.key, 8) + bytes(2**17))


@pytest.mark.parametrize("bad", [unknown, too_long, cut, without_memory])
def test_a_request_that_cannot_be_read_ends_the_connection_after_the_answers_before_it(
    impatient: KafkaBroker, storage: Held, bad: Callable[[Raw, KafkaBroker], None]
) -> None:
    with connected(impatient.address) as raw:
        send(raw, 1)
        until(lambda: log_of(impatient).next_offset == 1)
        [one] = impatient._listener._connections
        bad(raw, impatient)
        until(lambda: one._ends)
        storage.gate.set()
        assert answered(raw) == (1, 0, 0)
        assert raw.response() == b""


def test_a_lost_connection_releases_the_request_that_was_arriving(kafka: KafkaBroker, raw: Raw) -> None:
    memory = kafka._services.memory
    send(raw, 1)
    raw.socket.sendall(struct.pack(">ihh", 2**20, PRODUCE.key, 8) + bytes(2**17))
    until(lambda: memory.held["bodies"])
    raw.socket.close()
    until(lambda: not memory.held["bodies"])
    assert len(kafka._listener._connections) == 1


def test_a_request_with_many_partitions_does_not_let_the_next_one_be_read(
    kafka: KafkaBroker, storage: Held, raw: Raw
) -> None:
    send(raw, 1, others=FEW_PARTS)
    send(raw, 2)
    until(lambda: log_of(kafka).next_offset == 1)
    assert is_silent(kafka, raw)
    assert log_of(kafka).next_offset == 1
    storage.gate.set()
    assert [answered(raw), answered(raw)] == [(1, 0, 0), (2, 0, 1)]


def test_what_waits_holds_no_memory_of_its_request(kafka: KafkaBroker, raw: Raw) -> None:
    tracemalloc.start()
    try:
        for number in range(3):
            send(raw, number, bytes(2**20))
        until(lambda: log_of(kafka).next_offset == 3)
        until(lambda: not any(kafka._services.memory.held.values()))
        of_requests = tracemalloc.Filter(inclusive=True, filename_pattern=connection.__file__)
        held = tracemalloc.take_snapshot().filter_traces([of_requests]).statistics("filename")
    finally:
        tracemalloc.stop()
    assert sum(one.size for one in held) < 2**16
    assert is_silent(kafka, raw)


def test_a_client_that_has_sent_all_gets_its_answers(kafka: KafkaBroker, storage: Held, raw: Raw) -> None:
    send(raw, 1)
    send(raw, 2)
    raw.socket.shutdown(socket.SHUT_WR)
    until(lambda: log_of(kafka).next_offset == 2)
    storage.gate.set()
    assert [answered(raw), answered(raw)] == [(1, 0, 0), (2, 0, 1)]
    assert raw.response() == b""


def test_a_connection_counts_until_what_waits_in_it_has_ended(kafka: KafkaBroker, storage: Held) -> None:
    connections = kafka._listener._connections
    with connected(kafka.address) as raw:
        send(raw, 1)
        send(raw, 2)
        until(lambda: log_of(kafka).next_offset == 2)
        [one] = connections
    until(lambda: one._ends)
    assert one in connections
    storage.gate.set()
    until(lambda: not connections)


def test_a_server_that_stops_answers_what_waits(storage: Held) -> None:
    running = ExitStack()
    kafka = running.enter_context(KafkaBroker(storage))
    kafka.broker.create_topic("orders")
    storage.gate.clear()
    with connected(kafka.address) as raw:
        send(raw, 1)
        send(raw, 2)
        until(lambda: log_of(kafka).next_offset == 2)
        stopping = threading.Thread(target=running.close)
        stopping.start()
        until(lambda: all(one._ends for one in [*kafka._listener._connections]))
        storage.gate.set()
        assert [answered(raw), answered(raw)] == [(1, 0, 0), (2, 0, 1)]
    stopping.join()


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker on a real disk with the topic `orders`."""
    with KafkaBroker(LocalStorage(tmp_path_factory.mktemp("disk") / "root")) as broker:
        broker.broker.create_topic("orders")
        yield broker


@settings(max_examples=30, deadline=None)
@given(wanted=st.lists(st.sampled_from([ALL, ALL, ALL, WRITTEN, NONE, None]), max_size=60))
def test_answers_come_in_the_order_of_the_requests(disk: KafkaBroker, wanted: list[int | None]) -> None:
    start = log_of(disk).next_offset
    with connected(disk.address) as raw:
        for number, acks in enumerate(wanted):
            if acks is None:
                raw.request(LIST_GROUPS.key, 0, b"", number)
            else:
                send(raw, number, b"%d" % number, acks)
        for number, acks in enumerate(wanted):
            if acks is None:
                assert raw.response()[:4] == number.to_bytes(4, "big")
            elif acks != NONE:
                assert answered(raw) == (number, 0, start + sum(one is not None for one in wanted[:number]))
        raw.ask(LIST_GROUPS, 0, {})
    expected = [b"%d" % number for number, acks in enumerate(wanted) if acks is not None]
    assert [record.value for record in log_of(disk).scan(start=start)] == expected


def test_the_next_sync_does_not_wait_until_the_server_has_answered(kafka: KafkaBroker, storage: Held, raw: Raw) -> None:
    storage.reached.clear()
    before = storage.syncs
    send(raw, 1)
    assert storage.reached.wait(HANG_SECONDS)
    send(raw, 2)
    until(lambda: log_of(kafka).next_offset == 2)
    blocked, release = threading.Event(), threading.Event()
    kafka._loop.call_soon_threadsafe(lambda: (blocked.set(), release.wait(HANG_SECONDS)))
    try:
        assert blocked.wait(HANG_SECONDS)
        storage.gate.set()
        until(lambda: storage.syncs == before + 2)
    finally:
        release.set()
    assert [answered(raw)[0] for _ in range(2)] == [1, 2]


def test_nothing_is_read_any_more_after_a_bad_request_while_a_batch_waits(
    kafka: KafkaBroker, storage: Held, raw: Raw
) -> None:
    send(raw, 1)
    until(lambda: log_of(kafka).next_offset == 1)
    raw.request(PRODUCE.key, VERSION, b"no request", 2)
    [found] = kafka._listener._connections
    until(lambda: found._ends)
    assert found._is_paused
    assert found._incoming.begun == 0
    storage.gate.set()
    assert answered(raw)[0] == 1
    assert raw.response() == b""
