"""What a topic wants of requests: stored in topic.json, altered by one commit, and taken from logs."""

from __future__ import annotations

import errno
import json
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import seglog
from seglog import Broker, LogConfig, Policies, Retention, Topic, config
from seglog.log.opening import storage_at
from seglog.log.writer import LogWriter
from seglog.testing.faulty import WRITING, Fault, FaultyStorage
from seglog.topic.layout import description
from seglog.topic.repair import repair_place
from tests.earlier_policies import SERVER, fails_of, stored, with_logs


def test_a_topic_has_its_policies_for_good_and_gives_only_the_fields_that_are_named(broker: Broker, root: Path) -> None:
    topic = broker.create_topic("orders", partitions=2, policies=SERVER)
    twin = topic.with_serializers()
    broker.alter_topic("orders", policies=Policies(copies=1))
    topic.alter(policies=Policies(batch_bytes=1000), segment_age=60)
    wanted = Policies(copies=1, timestamps="server", batch_bytes=1000)
    assert topic.policies == twin.policies == wanted
    assert topic.partition(1).config == LogConfig(segment_age=60)
    broker.close()
    with Topic.open(root / "orders", mode="r") as read:
        assert read.policies == wanted


def test_an_earlier_version_refuses_a_topic_only_while_it_has_policies(broker: Broker, root: Path) -> None:
    broker.create_topic("orders", partitions=2)
    plain = (root / "orders/topic.json").read_bytes()
    broker.alter_topic("orders", policies=Policies(copies=1))
    assert (stored(root / "orders")["format_version"], stored(root / "orders")["policies"]) == (3, {"copies": 1})
    broker.alter_topic("orders", policies=Policies(copies=0))
    assert (root / "orders/topic.json").read_bytes() == plain


def test_to_alter_policies_alone_is_one_write_of_the_topic(broker: Broker) -> None:
    topic = broker.create_topic("orders", partitions=3)
    before = [topic.partition(number).view().manifest.version for number in range(3)]
    broker.alter_topic("orders", policies=Policies(copies=1))
    assert [topic.partition(number).view().manifest.version for number in range(3)] == before


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("settings", [{}, {"segment_age": 60.0}])
@pytest.mark.parametrize("again", [0, 1])
def test_policies_hold_that_are_altered_again_after_the_sync_of_the_topic_failed(
    root: Path, monkeypatch: pytest.MonkeyPatch, partitions: int, settings: dict[str, Any], again: int
) -> None:
    with Broker(root) as broker:
        topic = broker.create_topic("orders", partitions=partitions, policies=Policies(copies=again))
        write = description.write

        def unsynced(place: Any, wanted: description.Description) -> None:
            write(place, wanted)
            raise seglog.StorageError(5, "the directory is not synced", str(root))

        with monkeypatch.context() as faulty, pytest.raises(seglog.StorageError):
            faulty.setattr(description, "write", unsynced)
            broker.alter_topic("orders", policies=Policies(copies=1 - again), **settings)
        for copies in (again, 1 - again):
            broker.alter_topic("orders", policies=Policies(copies=copies), **settings)
            assert topic.policies.copies == (description.read(root / "orders").policies or Policies()).copies == copies
            assert topic.partition(partitions - 1).config == LogConfig(**settings)


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_change_that_failed_does_not_replace_a_later_one(
    root: Path, monkeypatch: pytest.MonkeyPatch, partitions: int, reopened: bool
) -> None:
    with monkeypatch.context() as faulty, Broker(root) as broker:
        topic = broker.create_topic("orders", partitions=partitions)
        faulty.setattr(LogWriter, "alter", fails_of(topic.partition(0)))
        with pytest.raises(seglog.StorageError):
            topic.alter(policies=Policies(copies=1), retention=Retention(age=10))
        if not reopened:
            faulty.undo()
            topic.alter(retention=Retention(age=1000))
    if reopened:
        with monkeypatch.context() as faulty:
            faulty.setattr(LogWriter, "alter", fails_always)
            topic = Topic.open(root / "orders")
        with topic:
            topic.alter(retention=Retention(age=1000))
    with Topic.open(root / "orders") as topic:
        assert (topic.policies.copies, topic.partition(0).config.retention.age) == (1, 1000)


def fails_always(log: Any, **_changes: Any) -> None:
    """Be an `alter` that fails."""
    raise seglog.StorageError(28, "no space", log.path)


def test_a_reader_sees_the_policies_that_the_topic_has_now(broker: Broker, root: Path) -> None:
    broker.create_topic("orders", policies=SERVER)
    with Topic.open(root / "orders", mode="r") as read:
        broker.alter_topic("orders", policies=Policies(copies=1))
        assert read.policies == Policies(copies=1, timestamps="server")


def test_a_reader_that_opens_a_topic_while_its_policies_are_moved_sees_them(
    earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = description.read

    def overtaken(place: Any) -> description.Description:
        found = read(place)
        monkeypatch.undo()
        with Broker(earlier) as broker:
            broker.topic("orders")
        return found

    monkeypatch.setattr(description, "read", overtaken)
    with Topic.open(earlier / "orders", mode="r") as opened:
        assert opened.policies == SERVER


def test_a_reader_sees_policies_that_are_moved_while_it_looks(earlier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Topic.open(earlier / "orders", mode="r") as read:
        storage = type(read._parts.storage)
        identity = storage.identity

        def overtaken(place: Any, name: str) -> object:
            found = identity(place, name)
            if name == description.FILE_NAME:
                monkeypatch.undo()
                with Broker(earlier) as broker:
                    broker.topic("orders")
            return found

        monkeypatch.setattr(storage, "identity", overtaken)
        assert [read.policies, read.policies] == [SERVER, SERVER]


@pytest.mark.parametrize("wanted", [Policies(), SERVER])
def test_a_reader_of_a_topic_that_is_deleted_has_the_policies_that_it_had(
    broker: Broker, root: Path, wanted: Policies
) -> None:
    broker.create_topic("orders", policies=wanted)
    with Topic.open(root / "orders", mode="r") as read:
        assert read.policies == wanted
        broker.delete_topic("orders")
        assert read.policies == wanted


def test_policies_of_a_newer_version_are_refused(broker: Broker, root: Path) -> None:
    broker.create_topic("orders")
    broker.close()
    path = root / "orders/topic.json"
    values = {**stored(root / "orders"), "format_version": 3, "policies": {"colour": "red"}}
    del values["check"]
    path.write_text(json.dumps(values))
    with pytest.raises(seglog.FormatVersionError, match=r"policies\.colour, which this seglog does not know; upgrade"):
        Topic.open(root / "orders")


def test_policies_of_an_earlier_version_are_read_without_a_write_and_moved_by_a_writer(earlier: Path) -> None:
    before = (earlier / "orders/topic.json").read_bytes()
    with Topic.open(earlier / "orders", mode="r") as read:
        assert read.policies == SERVER
    assert (earlier / "orders/topic.json").read_bytes() == before
    assert with_logs(earlier / "orders") == [True, True]
    for _ in range(2):
        with Broker(earlier) as broker:
            assert broker.topic("orders").policies == SERVER
        assert with_logs(earlier / "orders") == [False, False]
    assert stored(earlier / "orders")["policies"] == SERVER.to_json()


def test_a_topic_whose_policies_cannot_be_moved_is_opened_as_before(earlier: Path, tmp_path: Path) -> None:
    place = earlier / "orders"
    whole = FaultyStorage(storage_at(shutil.copytree(place, tmp_path / "whole")))
    Topic.open(whole).close()
    writes = [call for call in whole.calls if call.operation in WRITING]
    first = next(number for number, call in enumerate(writes, 1) if call.name.startswith("topic.json"))
    last = next(number for number in range(len(writes), 0, -1) if writes[number - 1].name == "topic.json")
    for number in range(first, last + 1):
        faulty = FaultyStorage(storage_at(shutil.copytree(place, tmp_path / str(number))))
        faulty.fault = Fault(at=number, error=errno.EIO)
        with Topic.open(faulty) as topic:
            assert faulty.struck
            for partition in (0, 1):
                topic.append(b"after", partition=partition)
            assert topic.policies == SERVER
        with Topic.open(tmp_path / str(number)) as topic:
            assert topic.policies == SERVER
            assert [topic.partition(partition).scan().__next__().value for partition in (0, 1)] == [b"v", b"after"]
        assert with_logs(tmp_path / str(number)) == [False, False]


def test_policies_in_a_change_that_an_earlier_version_began_count(earlier: Path) -> None:
    values = {**stored(earlier / "orders"), "format_version": 2, "altering": {"retention": {"copies": 5, "age": 60}}}
    del values["check"]
    (earlier / "orders/topic.json").write_text(json.dumps(values))
    for mode in ("r", "a", "r"):
        with Topic.open(earlier / "orders", mode=mode) as topic:
            assert topic.policies == Policies(copies=5, timestamps="server")
    with Topic.open(earlier / "orders") as topic:
        assert topic.partition(1).config.retention == Retention(age=60)


def test_the_former_fields_warn_and_are_taken_over(broker: Broker) -> None:
    with pytest.warns(DeprecationWarning, match=r"Retention\(copies\) is deprecated; use Policies of the topic") as one:
        kept = Retention(copies=1, age=60)
    assert one[0].filename == __file__
    topic = broker.create_topic("orders", config=LogConfig(retention=kept), policies=Policies(batch_bytes=9))
    assert topic.policies == Policies(copies=1, batch_bytes=9)
    assert topic.partition(0).config.retention == Retention(age=60)
    with pytest.warns(DeprecationWarning):
        broker.alter_topic("orders", retention=Retention(copies=3))
    assert topic.policies.copies == 3
    with pytest.warns(DeprecationWarning, match=r"Retention\.copies"):
        assert pickle.loads(pickle.dumps(kept)).copies == 1  # noqa: S301 - made here
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        kept.colour  # type: ignore[attr-defined] # noqa: B018 - it raises


class PickledBefore:
    """A config as a version before Policies pickles it."""

    def __init__(self, kind: type, values: dict[str, Any], given: set[str]) -> None:
        self._state = kind, values, frozenset(given)

    def __reduce__(self) -> tuple[Any, ...]:
        return config._restored, self._state


def test_a_pickle_of_an_earlier_version_has_its_policies_without_a_warning(broker: Broker) -> None:
    values = {"age": 60.0, "copies": 2, "timestamps": "server", "batch_bytes": None}
    kept = PickledBefore(Retention, values, {"age", "copies", "timestamps"})
    whole = PickledBefore(LogConfig, {"segment_age": 60.0, "retention": kept}, {"segment_age", "retention"})
    found = pickle.loads(pickle.dumps(whole))  # noqa: S301 - made here
    assert found.given() == {"segment_age": 60, "retention": Retention(age=60, _moved=SERVER)}
    assert found.retention.given() == {"age": 60}
    assert broker.create_topic("orders", config=found).policies == SERVER
    plain = pickle.loads(pickle.dumps(PickledBefore(Retention, {**values, "copies": 0}, {"age"})))  # noqa: S301
    assert plain == Retention(age=60)


def test_type_checkers_accept_the_former_fields(tmp_path: Path) -> None:
    user = tmp_path / "user.py"
    user.write_text(
        "from seglog.config import Retention\n"
        'kept = Retention(age=60, copies=1, timestamps="server", batch_bytes=None, timestamp_ahead=1.0)\n'
        "print(kept.copies)\n"
        "Retention(colour=1)\n"
    )
    known = [str(Path(seglog.__file__).parent / f"{name}.py") for name in ("config", "fields", "policies", "settings")]
    options = ["--config-file=", "--follow-imports=skip", f"--cache-dir={tmp_path / 'cache'}"]
    command = [sys.executable, "-m", "mypy", *options, str(user), *known]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    assert [line.partition("user.py:")[2] for line in said if "user.py" in line] == [
        '4: error: Unexpected keyword argument "colour" for "Retention"  [call-arg]'
    ]


def test_a_former_field_that_is_replaced_leaves_the_others() -> None:
    with pytest.warns(DeprecationWarning):
        one = Retention(copies=1, timestamps="server", age=60)
    with pytest.warns(DeprecationWarning):
        assert replace(one, batch_bytes=5)._moved == Policies(copies=1, timestamps="server", batch_bytes=5)


def test_a_log_without_a_topic_stores_none(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="a log without a topic has no use of it"):
        kept = Retention(copies=1)
    with seglog.open(tmp_path / "log", LogConfig(retention=kept)) as log:
        log.alter(retention=kept)
        assert "copies" not in log.config.to_json()["retention"]


def test_partitions_that_are_added_to_a_topic_leave_its_policies(broker: Broker, root: Path) -> None:
    broker.create_topic("orders", policies=SERVER)
    broker.add_partitions("orders", 2)
    broker.alter_topic("orders", segment_age=60)
    assert stored(root / "orders")["policies"] == SERVER.to_json()


# --- repair -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policies", [SERVER, replace(SERVER, kafka_configs={"retention.ms": "-1"})])
def test_a_damaged_description_is_restored_with_its_policies(root: Path, policies: Policies) -> None:
    with Broker(root) as broker:
        broker.create_topic("orders", policies=policies)
    path = root / "orders/topic.json"
    known, text = description.read(root / "orders"), path.read_bytes()
    path.write_bytes(text.replace(b'"partitions": 1', b'"p'))
    repair_place(root)
    assert description.read(root / "orders") == known


def test_a_rebuilt_description_says_that_policies_are_lost(root: Path) -> None:
    with Broker(root) as broker:
        broker.create_topic("orders", policies=SERVER)
    (root / "orders/topic.json").write_text("lost")
    actions = [action.outcome for action in repair_place(root).actions]
    assert any(
        "its policies, if it had any, are lost: set them again with `seglog topics alter`" in one for one in actions
    )
