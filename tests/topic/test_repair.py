"""Looking after a topic or a broker with all its logs: what is damaged, what is made good, what is left to a person."""

from __future__ import annotations

import errno
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.log.repair.repair import repair_storage
from seglog.storage import LocalStorage
from seglog.testing.faulty import Fault, FaultyStorage
from seglog.topic import Topic
from seglog.topic.layout import description
from seglog.topic.repair import repair, repair_place, verify_place
from seglog.topic.transaction import Transaction, commit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Files = dict[str, bytes]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A broker of two topics of three partitions, 30 records each."""
    root = tmp_path / "shop"
    with seglog.Broker(root) as broker:
        for name in ("orders", "users"):
            topic = broker.create_topic(name, partitions=3, config=seglog.LogConfig(segment_bytes=512))
            for number in range(30):
                topic.append(b"value %d" % number, key=b"k%d" % number)
    return root


def files(root: Path) -> Files:
    return {str(file.relative_to(root)): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()}


def kinds(root: Path) -> list[str]:
    return [problem.kind for problem in verify_place(root).problems]


def actions(root: Path, *, dry_run: bool = False) -> list[str]:
    return [action.kind for action in repair_place(root, dry_run=dry_run).actions]


def flip(path: Path, position: int, bits: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= bits
    path.write_bytes(data)


def store(log: Path) -> Path:
    return min(log.glob("*.store"))


# --- looking --------------------------------------------------------------------------------------------------------


def test_every_log_of_a_sound_broker_is_looked_at_and_nothing_is_changed(shop: Path) -> None:
    before = files(shop)
    told = verify_place(shop)
    assert (told.kind, told.ok, len(told.logs)) == ("broker", True, 7)
    assert sum(log.found.records for log in told.logs if log.found) == 60
    assert repair_place(shop, dry_run=True).actions == []
    assert files(shop) == before


def test_a_topic_and_a_log_alone_are_places_too(shop: Path) -> None:
    topic, log = verify_place(shop / "orders"), verify_place(shop / "orders" / "0")
    assert (topic.kind, [one.name for one in topic.logs]) == ("topic", ["0", "1", "2"])
    assert (log.kind, [one.name for one in log.logs]) == ("log", [""])


def test_progress_grows_over_all_logs_to_the_end(shop: Path) -> None:
    seen: list[tuple[int, int]] = []
    verify_place(shop, lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]


def test_where_nothing_of_ours_is_there_is_nothing_to_look_at(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(seglog.NotALog):
        verify_place(tmp_path)
    with pytest.raises(seglog.LogNotFound):
        verify_place(tmp_path / "nowhere")


def test_a_log_that_cannot_be_looked_at_does_not_keep_the_others_from_it(shop: Path) -> None:
    for manifest in (shop / "orders" / "1").glob("MANIFEST*"):
        manifest.unlink()
    for name in (shop / "orders" / "1").glob("*.store"):
        name.unlink()
    flip(store(shop / "users" / "2"), 150)
    told = verify_place(shop)
    assert [log.name for log in told.logs if log.error] == ["orders/1"]
    assert [log.name for log in told.logs if log.found and not log.found.ok] == ["users/2"]
    assert len(told.logs) == 7
    done = repair_place(shop)
    assert [type(error) for error in done.errors] == [seglog.CorruptLog]
    assert [action.kind for action in done.actions] == ["salvage"]


def test_what_the_system_does_not_let_be_read_is_told_and_the_rest_is_repaired(shop: Path) -> None:
    log = shop / "orders" / "1"
    first, second = sorted(log.glob("*.store"))
    flip(second, -5)
    storage = FaultyStorage(
        LocalStorage(log), Fault(operations=frozenset({"pread"}), name=first.name, error=errno.EIO, forever=True)
    )
    (told,) = verify_place(storage).logs
    assert told.found is not None
    assert [problem.kind for problem in told.found.problems] == ["refused", "record"]
    assert (told.found.unreadable[0].first, told.found.unreadable[0].stop) == (0, int(second.name[:20]))
    assert [action.kind for action in repair_place(storage).actions] == ["leave", "salvage"]
    storage.fault = None
    assert verify_place(storage).ok


def test_beside_a_writer_looking_works_and_says_so_and_repairing_is_refused(shop: Path) -> None:
    flip(store(shop / "users" / "0"), 150)
    with seglog.Broker(shop) as broker:
        broker.topic("orders")
        told = verify_place(shop)
        assert {log.writing for log in told.logs} == {True}  # the broker has all of them
        before = files(shop)
        for place in (shop, shop / "orders", shop / "orders" / "2"):
            with pytest.raises(seglog.LogLocked, match="stop it and repeat the repair"):
                repair_place(place)
        assert files(shop) == before
        assert actions(shop, dry_run=True) == ["salvage"]
    assert actions(shop) == ["salvage"]
    assert verify_place(shop).ok


# --- topic.json -----------------------------------------------------------------------------------------------------


def test_a_writer_that_comes_between_the_first_look_and_the_repair_is_told_of(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    come: list[object] = []

    def late(storage: Any, **how: Any) -> Any:
        if not come:
            come.append(storage.try_lock("LOCK"))
        return repair_storage(storage, **how)

    monkeypatch.setattr(repair, "repair_storage", late)
    with pytest.raises(seglog.LogLocked, match="open for writing"):
        repair_place(shop)


def wipe(path: Path) -> None:
    path.write_bytes(bytes(len(path.read_bytes())))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


CERTAIN: dict[str, Callable[[Path], None]] = {
    "a bit": lambda path: flip(path, 70),
    "a bit of its version": lambda path: flip(path, path.read_bytes().index(b": 1,") + 2, 2),
    "a byte": lambda path: flip(path, 60, 0x5A),
    "its end": cut,
}


@pytest.mark.parametrize("harm", CERTAIN)
def test_a_topic_json_whose_checksum_tells_what_it_said_is_what_it_was(shop: Path, harm: str) -> None:
    path = shop / "orders" / "topic.json"
    before = path.read_bytes()
    CERTAIN[harm](path)
    damaged = path.read_bytes()
    with pytest.raises((seglog.CorruptLog, seglog.FormatVersionError)):
        Topic.open(shop / "orders", mode="r")
    assert kinds(shop) == ["description"]
    assert actions(shop) == ["restore"]
    assert path.read_bytes() == before
    assert (shop / "orders" / "quarantine" / "topic.json").read_bytes() == damaged
    assert repair_place(shop).actions == []


@pytest.mark.parametrize("harm", [wipe, lambda path: path.unlink()], ids=["zeros", "lost"])
def test_a_lost_topic_json_is_made_of_the_directories_with_the_id_they_know(
    shop: Path, harm: Callable[[Path], None]
) -> None:
    path = shop / "orders" / "topic.json"
    before = description.read(shop / "orders")
    harm(path)
    left = files(shop / "orders").get("topic.json")
    assert kinds(shop) == ["description"]
    assert actions(shop) == ["rebuild"]
    after = description.read(shop / "orders")
    assert (after.name, after.partitions) == (before.name, before.partitions)
    assert after.id == before.id
    assert files(shop / "orders").get("quarantine/topic.json") == left
    with seglog.Broker(shop) as broker:
        assert sum(broker.topic("orders").partition(number).next_offset for number in range(3)) == 30
    assert verify_place(shop).ok


@pytest.mark.parametrize("lost", [0, 1])
def test_a_topic_json_is_not_made_up_where_a_partition_is_missing_too(shop: Path, lost: int) -> None:
    wipe(shop / "orders" / "topic.json")
    shutil.rmtree(shop / "orders" / str(lost))
    before = files(shop)
    assert actions(shop) == ["leave", "leave"]
    assert files(shop) == before


def test_fewer_directories_than_the_damaged_file_tells_of_are_not_taken_for_all(shop: Path) -> None:
    path = shop / "orders" / "topic.json"
    path.write_bytes(path.read_bytes().replace(b'"id": "', b'"id": "ff'))
    shutil.rmtree(shop / "orders" / "2")
    assert kinds(shop) == ["description", "partition"]
    assert actions(shop) == ["leave", "leave"]


def test_a_missing_partition_is_left_to_a_person_and_can_be_made_empty_as_told(shop: Path) -> None:
    shutil.rmtree(shop / "users" / "1")
    assert kinds(shop) == ["partition"]
    (action,) = repair_place(shop).actions
    assert action.kind == "leave"
    assert f"`seglog append {shop / 'users' / '1'} --lines < /dev/null`" in action.outcome
    seglog.open(shop / "users" / "1").close()
    assert verify_place(shop).ok
    Topic.open(shop / "users").close()


def test_what_an_interrupted_creation_left_is_no_topic(shop: Path) -> None:
    seglog.open(shop / "new" / "0").close()
    assert verify_place(shop).ok


def test_a_topic_of_a_later_version_is_left_alone(shop: Path) -> None:
    path = shop / "orders" / "topic.json"
    path.write_text(json.dumps({"format_version": 4, "replicas": 3}))
    before = files(shop)
    assert [type(error) for error in repair_place(shop).errors] == [seglog.FormatVersionError]
    assert files(shop) == before


# --- batches --------------------------------------------------------------------------------------------------------


@pytest.fixture
def interrupted(scene: Any) -> Path:
    """A topic with a batch that was committed and is in no partition yet."""
    scene.make().close()
    commit(LocalStorage(scene.root), Transaction(query="q", batch=0, staged=scene.stage()))
    root: Path = scene.root
    return root


def test_an_unfinished_batch_is_named_and_is_no_damage(interrupted: Path) -> None:
    told = verify_place(interrupted)
    assert told.ok
    (unfinished,) = told.topics[0].unfinished
    assert "batch 0 of query 'q', for partitions 0, 1, 3" in unfinished
    Topic.open(interrupted).close()
    assert verify_place(interrupted).topics[0].unfinished == ()


def test_a_flipped_bit_in_a_batchs_file_is_turned_back_and_the_batch_joins(scene: Any, interrupted: Path) -> None:
    path = interrupted / "txn" / "q-0.json"
    before = path.read_bytes()
    flip(path, 40, 16)
    damaged = path.read_bytes()
    assert kinds(interrupted) == ["transaction"]
    assert actions(interrupted) == ["restore"]
    assert path.read_bytes() == before
    assert (interrupted / "quarantine" / "q-0.json").read_bytes() == damaged
    with Topic.open(interrupted) as topic:
        assert scene.values(topic) == scene.joined(scene.OLD, scene.NEW)


def test_a_batchs_file_that_nobody_can_read_is_left_with_what_to_do(interrupted: Path) -> None:
    path = interrupted / "txn" / "q-0.json"
    path.write_bytes(path.read_bytes()[:-40])
    before = files(interrupted)
    (action,) = repair_place(interrupted).actions
    assert action.kind == "leave"
    assert "restore it from a backup" in action.outcome
    assert files(interrupted) == before
