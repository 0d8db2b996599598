"""What must not make a transaction lose, double or move anything: damage, refused writes, time, other transactions."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.errors import CorruptLog, KeyRequired, StorageError
from seglog.replication.promote import fence, promote
from seglog.storage import LocalStorage
from seglog.testing.faulty import Crashed, Fault, FaultyStorage
from seglog.topic.broker import Broker, transactions_of
from seglog.topic.idempotency.memory import WINDOW
from seglog.topic.transactions.frames import Kind, encode
from seglog.topic.transactions.journal import SUFFIX, Batch, Journal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

GROUP = "g"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    with Broker(tmp_path / "root") as broker:
        for name in ("a", "b"):
            broker.create_topic(name).append_batch(pa.table({"value": [b"0", b"1", b"2", b"3"]}))
    yield tmp_path / "root"


def stage(broker: Broker, journal: Journal, topic: str, values: Sequence[bytes], once: str = "x") -> None:
    batch = Batch(topic, broker.topic(topic).id, 0, f"{once} {topic}", len(values), {})
    transactions_of(broker).stage(journal, batch, pa.record_batch({"value": pa.array(values, pa.binary())}))


def begun(broker: Broker, values: Sequence[bytes] = (b"new",), topics: str = "ab", once: str = "x") -> Journal:
    journal = transactions_of(broker).begin({"id": "x"})
    for topic in topics:
        stage(broker, journal, topic, values, once)
    return journal


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.topic(topic).partition(0).scan()][4:]


def offset(broker: Broker, topic: str = "a") -> int | None:
    record = broker.groups.commits(GROUP).get((topic, 0))
    return None if record is None else record.offset


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [20, 400, 1000, -20])
def test_a_damaged_journal_is_reported_and_kept_not_dropped(root: Path, at: int) -> None:
    with Broker(root) as broker:
        journal = begun(broker)
        transactions_of(broker).decide(journal)
    path = root / ".transactions" / journal.name
    flip(path, at)
    damaged = path.read_bytes()
    with Broker(root) as broker:
        assert (values(broker, "a"), values(broker, "b")) == ([], [])
        assert "is damaged at" in broker.recovered[0]
        assert transactions_of(broker).take_over() == ([], [])
        assert f"{journal.name[:16]}.damaged" in broker.recovered[0]
        assert path.with_suffix(".damaged").read_bytes() == damaged
    with Broker(root) as broker:
        assert broker.recovered == ()


def test_an_open_journal_that_is_damaged_is_not_resumed_without_a_part(root: Path) -> None:
    with Broker(root) as broker:
        journal = begun(broker)
    flip(root / ".transactions" / journal.name, 400)
    with Broker(root) as broker:
        assert transactions_of(broker).take_over() == ([], [])
        assert "is damaged at" in broker.recovered[0]


def test_records_that_are_damaged_between_staging_and_the_commit_are_not_published(root: Path) -> None:
    with Broker(root) as broker:
        journal = begun(broker)
        flip(root / ".transactions" / journal.name, journal.batches[1].position + journal.batches[1].length // 2)
        transactions_of(broker).decide(journal)
        with pytest.raises(CorruptLog, match="is damaged at"):
            transactions_of(broker).publish(journal)
        assert values(broker, "b") == []
        assert [*broker.unpublished] == [f".transactions/{journal.name}"]


def test_a_write_that_is_refused_half_way_leaves_nothing_that_a_later_opening_takes_for_a_frame(root: Path) -> None:
    storage = FaultyStorage(LocalStorage(root))
    forged = b"".join(map(bytes, encode(Kind.DECISION, {"at": 1, "starts": [["b", 0, 0, 0]], "groups": 0})))
    with Broker(storage) as broker:
        journal = begun(broker, topics="a")
        refused = frozenset({"pwritev", "truncate"})
        storage.fault = Fault(operations=refused, name=SUFFIX, error=errno.ENOSPC, forever=True, keep=0.9)
        with pytest.raises(StorageError):
            stage(broker, journal, "b", [forged * 50])
        storage.fault = None
        for number in range(20):
            journal.note({"groups": ["g" * number]})
    with Broker(root) as broker:
        assert broker.recovered == ()
        [[left], failed] = transactions_of(broker).take_over()
        assert (len(left.batches), len(left.notes), left.decision, failed) == (1, 20, None, [])
        assert (root / ".transactions" / left.name).stat().st_size == left.size


def test_a_transaction_that_a_full_disk_lets_nobody_begin_leaves_no_file(root: Path) -> None:
    storage = FaultyStorage(LocalStorage(root))
    with Broker(storage) as broker:
        storage.fault = Fault(operations=frozenset({"pwritev"}), name=SUFFIX, error=errno.ENOSPC, forever=True)
        for _ in range(3):
            with pytest.raises(StorageError):
                begun(broker)
        assert [*(root / ".transactions").iterdir()] == []


# --- records ----------------------------------------------------------------------------------------------------------


def test_what_was_published_before_a_long_full_disk_and_deleted_since_is_not_published_again(root: Path) -> None:
    storage = FaultyStorage(LocalStorage(root))
    with Broker(storage) as broker:
        journal = begun(broker)
        transactions_of(broker).decide(journal)
        full = Fault(operations=frozenset({"pwrite", "pwritev"}), name="b/0", error=errno.ENOSPC, forever=True)
        storage.fault = full
        with pytest.raises(StorageError):
            transactions_of(broker).publish(journal)
        assert values(broker, "a") == [b"new"]
        storage.fault = None
        broker.topic("a").partition(0).delete_before(5)
        broker.topic("a").append(b"later")
    with Broker(root) as broker:
        assert [record.value for record in broker.topic("a").partition(0).scan()] == [b"later"]
        assert values(broker, "b") == [b"new"]


MANY = [b"%d" % number + b"v" * 1024 * 1024 for number in range(72)]
CUT = seglog.LogConfig(segment_bytes=4 * 1024 * 1024)


def interrupted(root: Path, values: Sequence[bytes], config: seglog.LogConfig, at: int) -> None:
    """Decide a transaction with one batch, and die when its records begin their segment number `at`."""
    storage = FaultyStorage(LocalStorage(root))
    broker = Broker(storage)
    broker.create_topic("long", partitions=2, config=config)
    journal = transactions_of(broker).begin({"id": "x"})
    batch = Batch("long", broker.topic("long").id, 1, "x long", len(values), {})
    transactions_of(broker).stage(journal, batch, pa.record_batch({"value": pa.array(values, pa.binary())}))
    transactions_of(broker).decide(journal)
    storage.fault = Fault(operations=frozenset({"create"}), name=".store", at=at)
    with pytest.raises(Crashed):
        transactions_of(broker).publish(journal)
    storage.crash()


def test_a_batch_of_which_a_kill_left_more_than_the_topic_remembers_is_continued_not_repeated(root: Path) -> None:
    interrupted(root, MANY, CUT, at=23)
    with Broker(root, mode="r") as broker:
        left = sum(len(record.value or b"") for record in broker.topic("long").partition(1).scan())
        assert WINDOW.bytes < left < sum(map(len, MANY))
    with Broker(root) as broker:
        assert [record.value for record in broker.topic("long").partition(1).scan()] == MANY


def test_a_journal_whose_name_stayed_is_known_to_be_published(root: Path) -> None:
    storage = FaultyStorage(LocalStorage(root))
    with Broker(storage) as broker:
        journal = begun(broker)
        transactions_of(broker).decide(journal)
        transactions_of(broker).publish(journal)
        storage.fault = Fault(operations=frozenset({"unlink"}), error=errno.EIO)
        with pytest.raises(StorageError):
            journal.remove()
        broker.topic("a").partition(0).truncate(4)
    with Broker(root) as broker:
        assert (values(broker, "a"), values(broker, "b")) == ([], [b"new"])
        [[left], _] = transactions_of(broker).take_over()
        assert left.is_published


def test_a_transaction_that_a_former_leader_decided_is_not_published_by_a_later_one(root: Path) -> None:
    with Broker(root) as broker:
        broker.groups.commit(GROUP, {"a": {0: 0}})
        journal = begun(broker)
        transactions_of(broker).decide(journal)
    fence(root, 3)
    assert promote(root) == 4
    with Broker(root) as broker:
        assert (values(broker, "a"), values(broker, "b")) == ([], [])
        assert "another leader was promoted since (term 0, now 4)" in broker.recovered[0]
        assert broker.unpublished == {}
    assert [one.name for one in (root / ".transactions").iterdir()] == [f"{journal.name[:16]}.outdated"]


@pytest.mark.parametrize("restarted", [False, True])
def test_records_without_keys_are_not_committed_to_a_topic_that_is_compacted_by_key_since(
    root: Path, restarted: bool
) -> None:
    with Broker(root) as broker:
        journal = begun(broker)
        if not restarted:
            refused_without_keys(broker, journal)
            journal.remove()
    if restarted:
        with Broker(root) as broker:
            [[journal], _] = transactions_of(broker).take_over()
            refused_without_keys(broker, journal)
            broker.topic("b").alter(retention=seglog.Retention(compact=False))
            transactions_of(broker).decide(journal)
            transactions_of(broker).publish(journal)
            assert (values(broker, "a"), values(broker, "b")) == ([b"new"], [b"new"])
            journal.remove()
    with Broker(root) as broker:
        assert (broker.recovered, transactions_of(broker).take_over()) == ((), ([], []))


def refused_without_keys(broker: Broker, journal: Journal) -> None:
    """Switch topic b to compaction by key; nothing is published, also not to topic a, and nothing waits for it."""
    broker.topic("b").alter(retention=seglog.Retention(compact=True))
    with pytest.raises(KeyRequired, match="partition 0 of 'b' has no key"):
        transactions_of(broker).decide(journal)
    assert (journal.decision, values(broker, "a"), values(broker, "b")) == (None, [], [])
    assert broker.unpublished == {}


def test_records_with_keys_are_committed_to_a_topic_that_is_compacted_by_key_since(root: Path) -> None:
    with Broker(root) as broker:
        journal = transactions_of(broker).begin({"id": "x"})
        batch = Batch("a", broker.topic("a").id, 0, "x a", 1, {})
        records = pa.record_batch({"key": pa.array([b"k"]), "value": pa.array([b"new"])})
        transactions_of(broker).stage(journal, batch, records)
        broker.topic("a").alter(retention=seglog.Retention(compact=True))
        transactions_of(broker).decide(journal)
        transactions_of(broker).publish(journal)
        assert values(broker, "a") == [b"new"]


# --- offsets ----------------------------------------------------------------------------------------------------------


def decided(broker: Broker, number: int, once: str) -> Journal:
    journal = begun(broker, once=once)
    transactions_of(broker).stage_offsets(journal, GROUP, {("a", 0): (number, "")})
    transactions_of(broker).decide(journal)
    return journal


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_transactions_of_a_group_the_one_decided_last_counts_in_any_order(root: Path, order: Any) -> None:
    with Broker(root) as broker:
        journals = [decided(broker, 1, "first"), decided(broker, 3, "second")]
        for one in order:
            transactions_of(broker).publish(journals[one])
        assert offset(broker) == 3


def test_of_two_transactions_of_a_group_that_a_crash_leaves_the_one_decided_last_counts(root: Path) -> None:
    with Broker(root) as broker:
        decided(broker, 1, "first"), decided(broker, 3, "second")
    with Broker(root) as broker:
        assert offset(broker) == 3
        assert values(broker, "a") == [b"new", b"new"]


def test_a_repeated_publication_does_not_move_a_group_back(root: Path) -> None:
    storage = FaultyStorage(LocalStorage(root))
    with Broker(storage) as broker:
        journal = decided(broker, 1, "x")
        storage.fault = Fault(operations=frozenset({"pwrite", "pwritev"}), name="b/0", error=errno.ENOSPC)
        with pytest.raises(StorageError):
            transactions_of(broker).publish(journal)
        broker.groups.commit(GROUP, {"a": {0: 4}})
        transactions_of(broker).publish(journal)
        assert offset(broker) == 4


def test_offsets_of_a_topic_that_was_created_again_are_not_committed(root: Path) -> None:
    with Broker(root) as broker:
        journal = begun(broker, topics="b")
        transactions_of(broker).stage_offsets(journal, GROUP, {("a", 0): (2, ""), ("b", 0): (3, "text")})
        broker.delete_topic("a")
        broker.create_topic("a").append_batch(pa.table({"value": [b"0", b"1", b"2"]}))
        transactions_of(broker).decide(journal)
        transactions_of(broker).publish(journal)
        assert (offset(broker), offset(broker, "b")) == (None, 3)


def test_offsets_after_a_truncation_are_reset_to_it(root: Path) -> None:
    with Broker(root) as broker:
        journal = begun(broker, topics="b")
        transactions_of(broker).stage_offsets(journal, GROUP, {("a", 0): (4, "")})
        broker.topic("a").partition(0).truncate(2)
        broker.topic("a").append_batch(pa.table({"value": [b"other", b"other", b"other"]}))
        transactions_of(broker).decide(journal)
        transactions_of(broker).publish(journal)
        assert offset(broker) == 2
