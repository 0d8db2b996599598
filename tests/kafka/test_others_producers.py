"""Producers choose their ids, and others can see them: nothing that another caller sends makes one of them fail."""

from __future__ import annotations

import asyncio

import pytest

from seglog import Broker, MemoryStorage
from seglog.kafka import codes
from seglog.kafka.messages.core import PRODUCE
from seglog.kafka.producers import sequences
from seglog.kafka.producers.registry import PRODUCER_BYTES, Producers
from seglog.kafka.producers.remembered import FROM_LOG, Entry, Remembered, Who
from seglog.kafka.producers.sequences import KEY, key_of
from seglog.kafka.records.decode import head_of
from seglog.server.runtime.shares import owner_of
from seglog.server.runtime.workers import Workers
from tests.kafka.producers import VERSION, batch_of
from tests.kafka.test_shares import as_token  # noqa: F401 - a fixture

PRODUCER = 2**61 + 7
PLACE = ("topic", 0)


def send(raw, value, sequence, *, epoch=0, topic="public"):
    """Send a record as a producer whose id everyone knows; return (error code, offset)."""
    records = batch_of([value], producer=PRODUCER, epoch=epoch, sequence=sequence)
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    values = {"transactional_id": None, "acks": 1, "timeout_ms": 1000, "topic_data": data}
    [found] = raw.ask(PRODUCE, VERSION, values)["responses"][0]["partition_responses"]
    return found["error_code"], found["base_offset"]


def test_a_token_that_sends_with_the_id_of_anothers_producer_changes_nothing_for_it(as_token):  # noqa: F811
    mallory, victim = as_token("mallory"), as_token("victim")
    assert send(victim, b"one", 0) == (codes.NONE, 0)
    assert send(mallory, b"of the next epoch", 0, epoch=1) == (codes.NONE, 1)
    assert send(mallory, b"of a sequence that the victim will use", 1, epoch=1) == (codes.NONE, 2)
    assert send(victim, b"two", 1) == (codes.NONE, 3)
    assert send(victim, b"two", 1) == (codes.NONE, 3)  # repeated
    assert send(victim, b"of the next epoch", 0, epoch=1) == (codes.NONE, 4)


def test_a_token_that_is_first_to_send_with_anothers_id_takes_no_sequence_from_it(as_token):  # noqa: F811
    mallory, victim = as_token("mallory"), as_token("victim")
    for sequence in range(3):
        assert send(mallory, b"squatted", sequence)[0] == codes.NONE
    for sequence in range(3):
        assert send(victim, b"right", sequence) == (codes.NONE, 3 + sequence)


def head(sequence, producer=PRODUCER):
    return head_of(memoryview(batch_of([b"v"], producer=producer, epoch=0, sequence=sequence)))


def test_the_key_of_a_batch_names_the_owner_and_is_that_of_earlier_versions_without_one():
    assert key_of(3, head(5), "") == f"kafka 3 {PRODUCER} 0 5"
    owned = key_of(3, head(5), owner_of("billing"))
    assert KEY.fullmatch(owned)[4] == owner_of("billing")
    assert KEY.fullmatch(f"{owned} 0123456789abcdef")[4] == owner_of("billing")
    assert KEY.fullmatch(f"kafka 3 {PRODUCER} 0 5 0123456789abcdef")[4] is None


def with_producers(story, most_bytes=1_000_000):
    """Run a story of the producers of a partition, and of its topic."""
    with Broker(MemoryStorage()) as broker:
        topic, workers = broker.create_topic("t"), Workers("scan", 1, 10)
        try:
            return asyncio.run(story(Producers(workers, most_bytes), topic))
        finally:
            workers.close()


async def append(producers, topic, sequence, *, owner="", payer="me", producer=PRODUCER):
    """Append a batch, or find it; return its offset and the owner in its key."""
    sent = head(sequence, producer)
    async with producers.turn((topic.id, 0), topic.partition(0), sent, owner, payer) as turn:
        if turn.offset is None:
            _, turn.offset = topic.append(b"v", partition=0, once=key_of(0, sent, turn.owner))
        return turn.offset, turn.owner


MINE, OTHER = "0" * 16, "1" * 16


def after_an_upgrade(story):
    """Run a story of a producer that has sent the sequences 0 to 2 to a server whose producers had no owners."""

    async def begun(producers, topic):
        for sequence in range(3):
            await append(producers, topic, sequence)
        await story(Producers(producers._workers, 1_000_000), topic)

    with_producers(begun)


def test_a_batch_that_an_earlier_version_has_stored_is_found_when_its_token_repeats_it():
    async def story(producers, topic):
        assert await append(producers, topic, 2, owner=MINE) == (2, "")
        assert await append(producers, topic, 3, owner=MINE) == (3, MINE)
        for sequence in range(4):
            offset, _ = await append(producers, topic, sequence, owner=MINE)
            assert offset == sequence
        assert topic.partition(0).next_offset == 4

    after_an_upgrade(story)


def test_a_batch_that_leaves_a_gap_after_those_of_an_earlier_version_is_refused():
    async def story(producers, topic):
        with pytest.raises(sequences.OutOfOrderSequence):
            await append(producers, topic, 4, owner=MINE)
        assert await append(producers, topic, 3, owner=MINE) == (3, MINE)

    after_an_upgrade(story)


def test_a_batch_of_an_earlier_version_is_found_after_the_next_one_and_another_start():
    async def story(producers, topic):
        assert await append(producers, topic, 3, owner=MINE) == (3, MINE)
        later = Producers(producers._workers, 1_000_000)
        assert await append(later, topic, 1, owner=MINE) == (1, "")
        assert await append(later, topic, 4, owner=MINE) == (4, MINE)

    after_an_upgrade(story)


def test_a_token_that_continues_a_producer_of_an_earlier_version_takes_no_sequence_from_another():
    async def story(producers, topic):
        assert await append(producers, topic, 3, owner=OTHER) == (3, OTHER)
        assert await append(producers, topic, 4, owner=OTHER) == (4, OTHER)
        assert await append(producers, topic, 2, owner=MINE) == (2, "")
        assert await append(producers, topic, 3, owner=MINE) == (5, MINE)

    after_an_upgrade(story)


def test_a_producer_of_an_earlier_version_that_is_forgotten_later_may_send_any_sequence():
    async def story(producers, topic):
        forget = (await producers._sequences((topic.id, 0), topic.partition(0))).forget
        assert await append(producers, topic, 3, owner=MINE) == (3, MINE)
        forget(Who(MINE, PRODUCER))
        assert await append(producers, topic, 7, owner=MINE) == (4, MINE)

    after_an_upgrade(story)


def test_a_caller_with_very_many_producers_loses_its_own_first_and_no_others():
    async def story(producers, topic):
        await append(producers, topic, 7, producer=1, payer="victim")
        for number in range(100):
            await append(producers, topic, 0, producer=1000 + number, payer="mallory")
        remembered, partitions = producers.counts()
        assert (remembered, partitions) == (30, 1)
        known = [one.producer for one in await producers.of((topic.id, 0), topic.partition(0))]
        assert known == [1, *range(1071, 1100)]
        with pytest.raises(sequences.OutOfOrderSequence):
            await append(producers, topic, 7 + 5, producer=1, payer="victim")

    with_producers(story, most_bytes=40 * PRODUCER_BYTES)


@pytest.mark.parametrize(("mine", "others"), [(MINE, OTHER), ("", "")], ids=["tokens", "addresses"])
def test_a_stranger_with_very_many_producers_in_a_partition_loses_its_own_first(monkeypatch, mine, others):
    monkeypatch.setattr(sequences, "MOST_PRODUCERS", 40)

    async def story(producers, topic):
        await append(producers, topic, 7, producer=1, owner=mine, payer="victim")
        for number in range(100):
            await append(producers, topic, 0, producer=1000 + number, owner=others, payer="mallory")
        known = [one.producer for one in await producers.of((topic.id, 0), topic.partition(0))]
        assert known == [1, *range(1071, 1100)]
        assert producers.counts() == (30, 1)
        with pytest.raises(sequences.OutOfOrderSequence):
            await append(producers, topic, 7 + 5, producer=1, owner=mine, payer="victim")

    with_producers(story)


def test_a_stranger_with_very_many_producers_loses_its_own_first_also_when_a_server_starts_again(monkeypatch):
    async def story(producers, topic):
        await append(producers, topic, 7, producer=1, owner=MINE)
        for number in range(100):
            await append(producers, topic, 0, producer=1000 + number, owner=OTHER)
        with monkeypatch.context() as patched:
            patched.setattr(sequences, "MOST_PRODUCERS", 40)
            in_partition = Producers(producers._workers, 1_000_000)
            with pytest.raises(sequences.OutOfOrderSequence):
                await append(in_partition, topic, 7 + 5, producer=1, owner=MINE)
        in_all = Producers(producers._workers, 40 * PRODUCER_BYTES)
        with pytest.raises(sequences.OutOfOrderSequence):
            await append(in_all, topic, 7 + 5, producer=1, owner=MINE)

    with_producers(story)


def test_producers_that_were_read_from_a_log_have_a_share_until_they_send_something():
    async def story(producers, topic):
        for number in range(50):
            await append(producers, topic, 0, producer=number)
        later = Producers(producers._workers, 40 * PRODUCER_BYTES)
        known = [one.producer for one in await later.of((topic.id, 0), topic.partition(0))]
        assert known == [*range(20, 50)]
        await append(later, topic, 1, producer=49, payer="victim")
        for number in range(200, 300):
            await append(later, topic, 0, producer=number, payer="mallory")
        assert 49 in [one.producer for one in await later.of((topic.id, 0), topic.partition(0))]
        assert later.counts()[0] < 40

    with_producers(story)


def test_producers_of_a_partition_that_was_truncated_are_counted_no_longer():
    async def story(producers, topic):
        for number in range(5):
            await append(producers, topic, 0, producer=number)
        topic.partition(0).truncate(2)
        await append(producers, topic, 1, producer=1)
        assert producers.counts() == (2, 1)

    with_producers(story)


def test_what_is_forgotten_counts_no_longer():
    remembered = Remembered(6)
    entries = [Entry(PLACE, Who("", number)) for number in range(8)]
    assert [remembered.use("one", entry) for entry in entries[:5]] == [[]] * 4 + [[entries[0]]]
    remembered.use("one", entries[1])  # the newest now
    assert remembered.use("one", entries[6]) == [entries[2]]
    assert remembered.use(FROM_LOG, entries[6]) == []
    assert remembered.use("two", entries[6]) == []
    for entry in entries:
        remembered.forget(entry)
    assert (len(remembered), remembered._of, remembered._shares.held) == (0, {}, 0)
