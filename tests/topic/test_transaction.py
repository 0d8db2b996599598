"""A batch of staged segments for many partitions: published all at once, known again, never taken up by a reader."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from xxhash import xxh64_hexdigest

import seglog
from seglog.clock import system_clock
from seglog.log.staging import KEPT_US
from seglog.storage import LocalStorage
from seglog.testing.faulty import WRITING, Fault
from seglog.topic import Topic
from seglog.topic.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIRST_LINK = Fault(operations=frozenset({"link"}), name="0/0")
SECOND_PARTITION = Fault(operations=frozenset({"link"}), name="1/0")


def untouched(root: Path) -> dict[str, bytes]:
    """Return what a refusal must leave: stores, manifests, transactions."""
    kept = [file for file in root.rglob("*") if file.is_file() and ("MANIFEST" in file.name or file.suffix == ".store")]
    kept += [file for file in root.glob("txn/*.json") if file.is_file()]
    return {str(file.relative_to(root)): file.read_bytes() for file in kept}


# --- published ------------------------------------------------------------------------------------------------------


def test_every_partition_gets_its_share_behind_its_own_records(scene: Any) -> None:
    with scene.make() as topic:
        assert topic.publish(scene.stage(), query="q", batch=0) == {0: range(2, 10), 1: range(1), 3: range(1, 2)}
        both = scene.joined(scene.OLD, scene.NEW)
        assert scene.values(topic) == both
        scene.check_sound(topic)
        topic.append_batch(pa.table({"value": [b"on"] * 4}))
    with Topic.open(scene.root) as topic:
        assert scene.values(topic) == scene.joined(both, {number: [b"on"] for number in range(4)})
        scene.check_sound(topic)


def test_a_share_without_segments_is_none(scene: Any) -> None:
    with scene.make() as topic:
        segments = len(topic.partition(1).segments)
        assert topic.publish({1: [], **scene.stage({0: [b"x"]})}, query="q", batch=0) == {0: range(2, 3)}
        assert len(topic.partition(1).segments) == segments
        assert topic.publish({}, query="empty", batch=0) == {}
        scene.check_sound(topic)


def test_a_batch_that_comes_again_is_recognised_whatever_partitions_it_had(scene: Any) -> None:
    with scene.make() as topic:
        topic.publish(scene.stage({1: [b"five"]}), query="q", batch=5)
        for batch in (5, 4, 0):
            for partition in range(4):
                assert topic.publish(scene.stage({partition: [b"again"]}), query="q", batch=batch) is None
    with Topic.open(scene.root) as topic:
        assert topic.publish(scene.stage(), query="q", batch=5) is None
        assert topic.publish(scene.stage({1: [b"other"]}), query="r", batch=5) == {1: range(1, 2)}
        assert topic.publish(scene.stage({2: [b"six"]}), query="q", batch=6) == {2: range(1, 2)}
        assert scene.values(topic) == scene.joined(scene.OLD, {1: [b"five", b"other"], 2: [b"six"]})


def test_a_job_that_is_finished_late_is_stored_once_though_its_id_is_forgotten_with_the_next(laboratory: Any) -> None:
    scene = laboratory.template
    laboratory.publish = lambda topic: topic.publish(laboratory.staged, query="job-a", batch=0)
    laboratory.die_publishing(SECOND_PARTITION)
    with Topic.open(scene.root) as topic:
        topic.publish(scene.stage({0: [b"next"]}, "job-b-0"), query="job-b", batch=0)
        assert scene.values(topic) == scene.joined(scene.OLD, scene.NEW, {0: [b"next"]})
    with Topic.open(scene.root) as topic:
        assert scene.values(topic) == scene.joined(scene.OLD, scene.NEW, {0: [b"next"]})
        scene.check_sound(topic)


# --- refused, and nothing changed -----------------------------------------------------------------------------------


def without_a_stage(scene: Any, staged: Any) -> None:
    LocalStorage(scene.root / "3").remove_directory(staged[3][0].directory)


def with_a_store_cut_short(scene: Any, staged: Any) -> None:
    store = scene.root / "0" / staged[0][-1].directory / staged[0][-1].entry.name()
    store.write_bytes(store.read_bytes()[:-1])


def with_shares_exchanged(scene: Any, staged: Any) -> None:
    staged[1], staged[3] = staged[3], staged[1]


@pytest.mark.parametrize("harm", [without_a_stage, with_a_store_cut_short, with_shares_exchanged])
def test_a_batch_with_one_bad_share_is_refused_before_it_is_committed(scene: Any, harm: Callable[..., None]) -> None:
    with scene.make() as topic:
        staged = scene.stage()
        harm(scene, staged)
        with pytest.raises(seglog.CorruptLog, match="write the batch again"):
            topic.publish(staged, query="q", batch=0)
        assert scene.values(topic) == scene.joined(scene.OLD)
        scene.check_sound(topic)
        topic.publish(scene.stage(), query="q", batch=0)
        assert scene.values(topic) == scene.joined(scene.OLD, scene.NEW)


@pytest.mark.parametrize("partition", [-1, 4])
def test_a_share_for_a_partition_that_is_not_there_is_refused(scene: Any, partition: int) -> None:
    with scene.make() as topic:
        staged = scene.stage()
        with pytest.raises(seglog.InvalidArgument, match="partitions 0 to 3"):
            topic.publish({**staged, partition: staged[0]}, query="q", batch=0)
        assert scene.values(topic) == scene.joined(scene.OLD)
        scene.check_sound(topic)


@pytest.mark.parametrize(
    ("query", "batch", "error"),
    [
        ("a/b", 0, seglog.InvalidArgument),
        ("", 0, seglog.InvalidArgument),
        ("..", 0, seglog.InvalidArgument),
        ("nul\0", 0, seglog.InvalidArgument),
        (None, 0, seglog.InvalidType),
        ("q", -1, seglog.InvalidArgument),
        ("q", None, seglog.InvalidType),
        ("x" * 300, 0, seglog.StorageError),
    ],
)
def test_a_name_that_no_file_can_have_is_refused(scene: Any, query: Any, batch: Any, error: type[Exception]) -> None:
    with scene.make() as topic:
        with pytest.raises(error):
            topic.publish(scene.stage(), query=query, batch=batch)
        topic.append(b"and on", key=b"k")
        scene.check_sound(topic)


def test_one_partition_that_can_take_no_batch_stops_all_of_it_before_it_is_committed(
    scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.make().close()
    (scene.root / "2" / "MANIFEST").unlink()
    with Topic.open(scene.root) as topic:
        with pytest.raises(seglog.CorruptLog, match="seglog repair"):
            topic.publish(scene.stage(), query="q", batch=0)
        topic.partition(2).repair()

        def refuse(_descriptor: int) -> None:
            raise OSError(errno.EIO, "gone")

        topic.partition(1).append(b"x")
        with monkeypatch.context() as patch, pytest.raises(seglog.LogPoisoned):
            patch.setattr("seglog.storage.local_file.sync_data", refuse)
            topic.partition(1).sync()
        with pytest.raises(seglog.LogPoisoned):
            topic.publish(scene.stage(), query="q", batch=0)
        assert scene.transactions() == []
        assert topic.partition(0).published("q") is None


# --- readers --------------------------------------------------------------------------------------------------------


def test_a_topic_that_is_only_read_publishes_nothing(scene: Any) -> None:
    scene.make().close()
    shares: list[Any] = [scene.stage(), {}]
    before = untouched(scene.root)
    with Topic.open(scene.root, mode="r") as topic:
        for share in shares:
            with pytest.raises(seglog.LogReadOnly):
                topic.publish(share, query="q", batch=0)
    assert untouched(scene.root) == before
    assert not (scene.root / "txn").exists()


def test_a_reader_leaves_an_unfinished_batch_to_the_next_writer(laboratory: Any) -> None:
    laboratory.die_publishing(SECOND_PARTITION)
    scene = laboratory.template
    before = untouched(scene.root)
    with Topic.open(scene.root, mode="r") as topic:
        assert scene.values(topic) == scene.joined(scene.OLD, {0: scene.NEW[0]})
        with pytest.raises(seglog.LogReadOnly):
            topic.append(b"x")
        assert untouched(scene.root) == before
        with Topic.open(scene.root):
            assert scene.values(topic) == scene.joined(scene.OLD, scene.NEW)


# --- what waits in txn/ ---------------------------------------------------------------------------------------------


def flip(position: int) -> Callable[[bytes], bytes]:
    """Return what flips one bit of a file."""

    def harm(data: bytes) -> bytes:
        harmed = bytearray(data)
        harmed[position] ^= 1
        return bytes(harmed)

    return harm


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: b"",
        lambda data: data[:-9],
        flip(12),
        flip(-3),
        lambda data: bytes(len(data)),
    ],
    ids=["empty", "cut short", "a bit of the text", "a bit of the check", "zeros"],
)
def test_a_damaged_transaction_is_refused_and_nothing_changes_until_it_is_restored_or_moved_away(
    laboratory: Any, harm: Callable[[bytes], bytes]
) -> None:
    laboratory.die_publishing(FIRST_LINK)
    scene = laboratory.template
    waiting = scene.root / "txn" / "q-0.json"
    good = waiting.read_bytes()
    waiting.write_bytes(harm(good))
    before = untouched(scene.root)
    for _ in range(2):
        with pytest.raises(seglog.CorruptLog, match=r"q-0\.json is damaged.*Restore it, or move it away"):
            Topic.open(scene.root)
        assert untouched(scene.root) == before
    with Topic.open(scene.root, mode="r") as topic:
        assert scene.values(topic) == scene.joined(scene.OLD)

    waiting.unlink()
    with Topic.open(scene.root) as topic:
        assert scene.values(topic) == scene.joined(scene.OLD)
    waiting.write_bytes(good)
    with Topic.open(scene.root) as topic:
        assert scene.values(topic) == scene.joined(scene.OLD, scene.NEW)
        scene.check_sound(topic)


def test_every_flipped_bit_and_every_cut_of_a_transaction_is_noticed(scene: Any) -> None:
    scene.make().close()
    transaction = Transaction(query="q", batch=7, staged=scene.stage({1: [b"x"]}))
    data = transaction.encode()
    assert Transaction.decode(data, "q-7.json") == transaction
    damaged = [data[:length] for length in range(len(data) - 1)]
    for position in range(len(data)):
        damaged += [data[:position] + bytes([data[position] ^ 1 << bit]) + data[position + 1 :] for bit in range(8)]
    for one in damaged:
        with pytest.raises(seglog.CorruptLog, match=r"q-7\.json"):
            Transaction.decode(one, "q-7.json")


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b"no JSON",
        b"[" * 3000,
        b'{"format": 2}',
        b'{"format": 1, "query": "q", "batch": -1, "staged": {}}',
        b'{"format": 1, "query": "q", "batch": 1, "staged": {"0": [{"directory": 5, "entry": {}}]}}',
        b'{"format": 1, "query": "q", "batch": 1e999, "staged": {}}',
        b'{"format": 1, "query": "../q", "batch": 1, "staged": {}}',
    ],
)
def test_a_transaction_that_is_whole_but_unknown_is_a_newer_versions(body: bytes) -> None:
    data = body + b"\n" + xxh64_hexdigest(body).encode() + b"\n"
    with pytest.raises(seglog.FormatVersionError, match=r"q-7\.json.*nothing was changed"):
        Transaction.decode(data, "q-7.json")


def test_a_stray_file_among_the_transactions_disturbs_nobody(scene: Any) -> None:
    with scene.make() as topic:
        topic.publish(scene.stage({0: [b"x"]}), query="q", batch=0)
    (scene.root / "txn" / ".tmp").write_bytes(b"half a transaction")
    (scene.root / "txn" / ".DS_Store").write_bytes(b"x")
    with Topic.open(scene.root) as topic:
        topic.publish(scene.stage({0: [b"y"]}), query="q", batch=1)
        assert scene.values(topic)[0][-2:] == [b"x", b"y"]


def test_what_is_finished_at_opening_is_made_durable_before_any_partition_relies_on_it(laboratory: Any) -> None:
    """Who died between the rename and the sync of its directory left a commit that a power cut may still take back."""
    laboratory.die_publishing(Fault(operations=frozenset({"sync_directory"}), name="txn"))
    assert laboratory.template.transactions() == ["q-0.json"]
    run = next(laboratory.runs(lambda topic: None, Fault(name="no such file"), opening=True))
    calls = [f"{call.operation} {call.name}" for call in run.storage.calls]
    assert calls.index("sync_directory txn") < next(at for at, call in enumerate(calls) if call.startswith("link 0/0"))
    with Topic.open(run.scene.root) as topic:
        assert run.scene.values(topic) == run.scene.joined(run.scene.OLD, run.scene.NEW)


def test_the_transaction_is_on_the_medium_before_any_partition_changes_and_goes_after_all_have(laboratory: Any) -> None:
    run = next(laboratory.runs(laboratory.publish, Fault(name="no such file")))
    calls = [f"{call.operation} {call.name}" for call in run.storage.calls if call.operation in WRITING]
    begun = calls.index("pwrite txn/.tmp")
    assert calls[begun : begun + 4] == [
        "pwrite txn/.tmp",
        "datasync txn/.tmp",
        "rename txn/q-0.json",
        "sync_directory txn",
    ]
    assert not any(call.startswith(("link", "rename")) for call in calls[:begun])
    synced = [place for place, call in enumerate(calls) if call in ("sync_directory 0", "sync_directory 3")]
    assert max(synced) < calls.index("unlink txn/q-0.json")


def test_an_unfinished_batch_keeps_its_stages_however_old_and_what_nobody_waits_for_goes(
    laboratory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = laboratory.template
    laboratory.die_publishing(FIRST_LINK)
    scene.stage({2: [b"x"]}, "nobody")
    monkeypatch.setattr("seglog.topic.topic.system_clock", lambda: system_clock() + KEPT_US + 60_000_000)
    stages = [scene.root / str(number) / "staging" for number in range(4)]
    Topic.open(scene.root, mode="r").close()
    assert [len(list(one.iterdir())) for one in stages] == [1, 1, 1, 1]
    with Topic.open(scene.root) as topic:
        assert scene.values(topic) == scene.joined(scene.OLD, scene.NEW)
        scene.check_sound(topic)
    assert [len(list(one.iterdir())) for one in stages] == [0, 0, 0, 0]
