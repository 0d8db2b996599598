"""Requests come in pieces of any size, several at once, and use memory that the server has."""

from __future__ import annotations

import asyncio
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seglog.kafka.incoming import FIRST_BYTES, Incoming
from seglog.kafka.messages.core import METADATA, PRODUCE
from seglog.kafka.wire.buffers import Malformed
from seglog.server.runtime.memory import Claim, Memory
from seglog.server.settings import Limits
from seglog.testing.kafka import KafkaBroker
from tests.kafka.conftest import connected
from tests.kafka.producers import VERSION, batch_of, produce_of, produced

LIMITS = Limits(batch_bytes=400_000)


def request(content):
    """Return a request with its length."""
    return struct.pack(">ihhi", 8 + len(content), PRODUCE.key, VERSION, 1) + content


def incoming(memory, limits=LIMITS):
    return Incoming(limits, memory, bytearray(FIRST_BYTES))


def fed(one, data):
    """Let as much of some bytes come as there is space for; return how many."""
    space = one.space()
    size = min(len(space), len(data))
    space[:size] = data[:size]
    one.arrived(size)
    return size


def taken(one):
    """Take all requests that are complete, each of which ends before the next one is taken."""
    found = []
    while (request := one.take()) is not None:
        found.append(bytes(request))
        one.release()
    return found


SIZES = st.integers(0, 100) | st.sampled_from([FIRST_BYTES - 20, FIRST_BYTES, 3 * FIRST_BYTES])
PIECES = st.lists(st.integers(1, 30) | st.integers(1, 2 * FIRST_BYTES)).map(lambda some: [*some, FIRST_BYTES // 2])


@settings(max_examples=100)
@given(st.lists(SIZES, max_size=8), PIECES)
def test_requests_are_found_wherever_their_bytes_are_cut(sizes, pieces):
    wanted = [request(bytes([number]) * size) for number, size in enumerate(sizes)]
    data, memory, found, turn = b"".join(wanted), Memory(10_000_000), [], 0
    one = incoming(memory)
    while data:
        data = data[fed(one, data[: pieces[turn % len(pieces)]]) :]
        found += taken(one)
        turn += 1
    assert found == [each[4:] for each in wanted]
    assert one.begun == 0
    assert not any(memory.held.values())


def test_what_came_behind_a_request_waits_until_it_is_taken():
    one = incoming(Memory(10_000_000))
    fed(one, request(b"first") + request(b"second"))
    first = one.take()
    one.release()
    assert one.take() == request(b"second")[4:]
    assert first == request(b"first")[4:]


def test_a_long_request_holds_as_much_memory_as_has_come_of_it_at_most_doubled():
    memory = Memory(10_000_000)
    one, data, come = incoming(memory), request(bytes(300_000)), 0
    while come < len(data):
        come += fed(one, data[come : come + 10_000])
        held = one.take()
        assert memory.held["bodies"] <= max(2 * come, FIRST_BYTES)
    assert bytes(held) == data[4:]
    assert memory.held["bodies"] == len(data)
    one.release()
    assert not any(memory.held.values())


def test_a_request_waits_for_memory_and_goes_on():
    async def check():
        memory = Memory(400_000)
        other = Claim(memory, "bodies")
        other.resize(190_000)
        one, data = incoming(memory, Limits(batch_bytes=400_000, idle_seconds=60)), request(bytes(150_000))
        come = fed(one, data)
        assert one.take() is None
        assert one.room == 2 * FIRST_BYTES
        waiting = asyncio.create_task(one.wait_for_room())
        await asyncio.sleep(0)
        assert not waiting.done()
        other.close()
        assert await waiting
        assert one.room == 0
        while come < len(data):
            come += fed(one, data[come:])
            found = one.take()
        assert bytes(found) == data[4:]

    asyncio.run(check())


def test_a_request_that_gets_no_memory_in_time_is_told_so():
    async def check():
        memory = Memory(400_000)
        Claim(memory, "bodies").resize(190_000)
        one = incoming(memory, Limits(batch_bytes=400_000, idle_seconds=0.01))
        fed(one, request(bytes(150_000)))
        assert one.take() is None
        assert not await one.wait_for_room()

    asyncio.run(check())


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (struct.pack(">ihh", 100, 30_000, 0), "does not know the request 30000"),
        (struct.pack(">ihh", -1, PRODUCE.key, 0), "the Produce request has -1 bytes, less than its head"),
        (struct.pack(">ihh", 7, PRODUCE.key, 0), "the Produce request has 7 bytes, less than its head"),
        (
            struct.pack(">ihh", 2**31 - 1, PRODUCE.key, 0),
            "the Produce request has 2147483647 bytes, and may have 465536 ",
        ),
        (
            struct.pack(">ihh", 465_537, PRODUCE.key, 0),
            r"465537 bytes, and may have 465536 \(--batch-bytes and 64 KiB\)$",
        ),
        (
            struct.pack(">ihh", 5_000_000, METADATA.key, 4),
            "the Metadata request has 5000000 bytes, and may have 4194304$",
        ),
        *(
            (text, "this looks like HTTP; the Kafka listener")
            for text in (b"GET / HTTP/1.1", b"POST /topics", b"PUT /a b")
        ),
        (b"PRI * HTTP/2.0", "this looks like HTTP; the Kafka listener"),
    ],
)
def test_an_unknown_request_or_one_of_impossible_length_is_refused_by_its_head(head, text):
    one = incoming(Memory(10_000_000))
    fed(one, head)
    with pytest.raises(Malformed, match=text):
        one.take()


@pytest.mark.parametrize("acks", [(1, 1, 1, 1), (-1, -1, -1, -1), (-1, 1, -1, 1), (1, -1, 0, -1)])
@pytest.mark.parametrize("piece", [7, 1000, 10**6])
def test_batches_sent_one_after_another_are_stored_and_answered_in_order(tmp_path, acks, piece):
    with KafkaBroker(tmp_path / "root") as broker, connected(broker.address) as raw:
        broker.broker.create_topic("orders")
        data = b""
        for number, one in enumerate(acks):
            body = produce_of([batch_of([b"%d" % number, b"x" * 500])], acks=one)
            head = struct.pack(">hhih", PRODUCE.key, VERSION, number, -1)
            data += struct.pack(">i", len(head + body)) + head + body
        for at in range(0, len(data), piece):
            raw.socket.sendall(data[at : at + piece])
        for number, one in enumerate(acks):
            if one:
                response = raw.response()
                assert int.from_bytes(response[:4], "big") == number
                assert produced(response) == (0, 2 * number)
        log = broker.broker.topic("orders").partition(0)
        assert [log.read(2 * number).value for number in range(len(acks))] == [b"%d" % n for n in range(len(acks))]
