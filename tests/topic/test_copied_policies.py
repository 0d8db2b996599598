"""The policies of a topic in its copies, backups and archives, and in a copy that takes over."""

from __future__ import annotations

import itertools
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import seglog
from seglog import Archiver, Broker, Mirror, Policies, Retention, Topic
from seglog.archive import archiver as archiver_module
from seglog.archive.promotion import promote_from_archive
from seglog.log.opening import storage_at
from seglog.replication import promote
from seglog.replication.places import LocalPlace
from seglog.testing.faulty import Crashed, Fault, FaultyStorage
from tests.earlier_policies import SERVER, alter_with_logs, fails_of, stored, with_logs
from tests.waiting import until


@pytest.mark.parametrize("place", ["", "orders"])
def test_a_copy_has_the_policies_of_its_leader_and_their_changes(
    broker: Broker, root: Path, place: str, tmp_path: Path
) -> None:
    broker.create_topic("orders", policies=SERVER)
    copy = tmp_path / "copy"
    with Mirror(root / place, copy) as mirror:
        mirror.step()
        described = copy if place else copy / "orders"
        assert stored(described)["policies"] == SERVER.to_json()
        broker.alter_topic("orders", policies=Policies(copies=1, timestamps="given"))

        def has_them() -> bool:
            mirror.step()
            return stored(described).get("policies") == {"copies": 1}

        until(has_them)


def test_a_copy_of_a_leader_of_an_earlier_version_keeps_the_policies_while_it_is_upgraded_and_promoted(
    earlier: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    with Mirror(earlier, copy) as mirror:
        mirror.step()
        with Topic.open(copy / "orders", mode="r") as read:
            assert read.policies == SERVER
        with Broker(earlier) as broker:
            broker.topic("orders")

        def is_upgraded() -> bool:
            mirror.step()
            with Topic.open(copy / "orders", mode="r") as read:
                assert read.policies == SERVER, "at no moment they are lost"
            return not any(with_logs(copy / "orders"))

        until(is_upgraded)
    promote(copy)
    with Broker(copy) as leader:
        assert leader.topic("orders").policies == SERVER


def test_a_new_copy_of_a_leader_of_an_earlier_version_has_policies_that_were_altered_since_the_last_look(
    earlier: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    with Mirror(earlier, copy) as mirror:
        mirror.catch_up()
    altered = Policies(copies=1, timestamps="server", batch_bytes=1000)
    alter_with_logs(earlier / "orders", altered)
    with Mirror(earlier, copy) as mirror:
        mirror.catch_up()
    with Topic.open(copy / "orders", mode="r") as read:
        assert read.policies == altered
    promote(copy)
    with Broker(copy) as leader:
        assert leader.topic("orders").policies == altered


def test_a_topic_that_replaces_the_source_of_a_copy_leaves_the_copy_as_it_is(
    broker: Broker, root: Path, tmp_path: Path
) -> None:
    broker.create_topic("orders").append(b"1")
    with Mirror(root / "orders", tmp_path / "copy") as mirror:
        mirror.step()
        broker.delete_topic("orders")
        broker.create_topic("orders")

        def is_refused() -> bool:
            with pytest.raises(seglog.LogReplaced) as caught:
                mirror.step()
            return "another topic" in str(caught.value)

        until(is_refused)
    promote(tmp_path / "copy")
    with Topic.open(tmp_path / "copy") as leader:
        assert leader.partition(0).read(0).value == b"1"


@pytest.mark.parametrize("upgraded", [False, True])
def test_a_backup_and_an_archive_have_the_policies(earlier: Path, tmp_path: Path, upgraded: bool) -> None:
    archive = (tmp_path / "archive").as_uri()
    for again in range(2):
        if again and upgraded:
            with Broker(earlier) as broker:
                broker.topic("orders")
        seglog.backup(earlier, tmp_path / "backup")
        with Archiver(earlier, archive, hold=False) as archiver:
            archiver.step()
        seglog.restore(archive, tmp_path / f"restored-{again}")
        for found in (tmp_path / "backup", tmp_path / f"restored-{again}"):
            with Topic.open(found / "orders", mode="r") as read:
                assert read.policies == SERVER


def test_a_copy_that_is_made_once_while_its_leader_moves_policies_has_them(
    earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = LocalPlace.topics

    def overtaken(place: LocalPlace) -> Any:
        found = topics(place)
        with Broker(earlier) as broker:
            broker.topic("orders")
        return found

    monkeypatch.setattr(LocalPlace, "topics", overtaken)
    with Mirror(earlier, tmp_path / "copy") as mirror:
        mirror.catch_up()
    with Topic.open(tmp_path / "copy/orders", mode="r") as read:
        assert read.policies == SERVER


ALTERED = {"policies": Policies(copies=1), "retention": Retention(age=60), "segment_age": 30.0}


@pytest.fixture
def copied(broker: Broker, root: Path, tmp_path: Path) -> Path:
    """A copy of a directory whose topic `orders` is archived, too."""
    broker.create_topic("orders", partitions=2, policies=SERVER).append(b"1", partition=0)
    with Mirror(root, tmp_path / "copy") as mirror:
        mirror.catch_up()
    return tmp_path / "copy"


def archived(root: Path) -> str:
    """Archive a directory, and return where it is."""
    url = (root.parent / "archive").as_uri()
    with Archiver(root, url, hold=False) as archiver:
        archiver.step()
    return url


def settings_of(topic: Topic) -> list[Any]:
    logs = [topic.partition(number) for number in range(topic.partitions)]
    return [topic.policies, *((log.config.retention, log.config.segment_age) for log in logs)]


@pytest.mark.parametrize("epochs", [(), (0,), (1,), (0, 1)], ids=str)
def test_a_copy_that_takes_over_from_a_later_archive_has_all_its_settings(
    broker: Broker, root: Path, copied: Path, epochs: tuple[int, ...]
) -> None:
    topic = broker.topic("orders")
    for number in epochs:
        topic.partition(number).append(b"cut")
        topic.partition(number).truncate(topic.partition(number).next_offset - 1)
    broker.alter_topic("orders", **ALTERED)
    topic.append(b"2", partition=0)
    wanted = settings_of(topic)
    promote_from_archive(copied, archived(root))
    with Topic.open(copied / "orders") as leader:
        assert settings_of(leader) == wanted
        assert leader.partition(0).next_offset == 2
    assert "altering" not in stored(copied / "orders")


def test_a_takeover_that_ends_before_any_commit_is_repeated_with_all_settings(
    broker: Broker, root: Path, copied: Path, tmp_path: Path
) -> None:
    topic = broker.topic("orders")
    topic.partition(1).append(b"cut")
    topic.partition(1).truncate(0)
    broker.alter_topic("orders", **ALTERED)
    topic.append(b"2", partition=0)
    wanted = settings_of(topic)
    archived(root)
    for number in itertools.count(1):
        copy = shutil.copytree(copied, tmp_path / f"copy-{number}")
        archive = shutil.copytree(tmp_path / "archive", tmp_path / f"archive-{number}").as_uri()
        faulty = FaultyStorage(storage_at(copy), Fault(operations=frozenset({"rename"}), at=number))
        try:
            promote_from_archive(faulty, archive)
        except Crashed:
            with suppress(seglog.errors.InvalidArgument):  # it was the leader already
                promote_from_archive(copy, archive)
        with Topic.open(copy / "orders") as leader:
            assert settings_of(leader) == wanted
        if not faulty.struck:
            break
    assert number > 5


def test_a_copy_of_a_leader_that_ended_while_it_was_altering_completes_the_change_when_it_takes_over(
    broker: Broker, root: Path, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic("orders")
    last = topic.partition(1)
    with monkeypatch.context() as faulty, pytest.raises(seglog.StorageError):
        faulty.setattr(type(last), "alter", fails_of(last))
        broker.alter_topic("orders", **ALTERED)
    assert "altering" in stored(root / "orders")
    with Mirror(root, copied) as mirror:
        mirror.catch_up()
    promote(copied)
    broker.alter_topic("orders", **ALTERED)
    with Topic.open(copied / "orders") as leader:
        assert settings_of(leader) == settings_of(topic)
        assert leader.policies == Policies(copies=1, timestamps="server")


def test_an_archive_has_the_policies_that_a_topic_had_with_its_settings(
    broker: Broker, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.create_topic("orders", partitions=2, policies=SERVER)
    views = archiver_module.consistent_views

    def overtaken(*args: Any) -> Any:
        found = views(*args)
        monkeypatch.undo()
        broker.alter_topic("orders", **ALTERED)
        return found

    monkeypatch.setattr(archiver_module, "consistent_views", overtaken)
    seglog.restore(archived(root), root.parent / "restored")
    with Topic.open(root.parent / "restored/orders", mode="r") as restored:
        assert settings_of(restored) == settings_of(topic)


def test_a_copy_that_takes_over_from_an_earlier_archive_keeps_its_settings(
    broker: Broker, root: Path, copied: Path
) -> None:
    url = archived(root)
    broker.alter_topic("orders", policies=Policies(copies=1), retention=Retention(age=60))
    broker.topic("orders").append(b"2", partition=0)
    wanted = settings_of(broker.topic("orders"))
    with Mirror(root, copied) as mirror:
        mirror.catch_up()
    promote_from_archive(copied, url)
    with Topic.open(copied / "orders") as leader:
        assert settings_of(leader) == wanted


def test_a_copy_that_takes_over_has_the_partitions_that_only_the_archive_has(
    broker: Broker, root: Path, copied: Path
) -> None:
    broker.add_partitions("orders", 3)
    broker.topic("orders").append(b"2", partition=2)
    promote_from_archive(copied, archived(root))
    with Topic.open(copied / "orders") as leader:
        assert (leader.partitions, leader.policies) == (3, SERVER)
        assert leader.partition(2).read(0).value == b"2"


@pytest.mark.parametrize("upgraded", [False, True])
def test_a_copy_of_a_leader_of_an_earlier_version_takes_over_from_its_archive_with_the_policies(
    earlier: Path, tmp_path: Path, upgraded: bool
) -> None:
    with Mirror(earlier, tmp_path / "copy") as mirror:
        mirror.catch_up()
    changed = replace(SERVER, batch_bytes=1000)
    alter_with_logs(earlier / "orders", changed)
    with seglog.open(earlier / "orders/1") as log:
        log.append(b"2")
    if upgraded:
        with Broker(earlier) as broker:
            broker.topic("orders")
    promote_from_archive(tmp_path / "copy", archived(earlier))
    with Broker(tmp_path / "copy") as leader:
        assert leader.topic("orders").policies == changed
    assert with_logs(tmp_path / "copy/orders") == [False, False]
