"""What the sink's tasks and its driver share, without Spark: stages, their publication, and what is left over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import seglog
from seglog.clock import system_clock
from seglog.spark.write import destination
from seglog.spark.write.destination import everywhere, find
from seglog.spark.write.options import WriteOptions
from seglog.spark.write.sink import BatchSink, Staged
from seglog.spark.write.task import StagingTask
from seglog.topic import Topic
from seglog.topic.transaction import Transaction, commit

if TYPE_CHECKING:
    from pathlib import Path

    from seglog.spark.write.destination import Share
    from seglog.storage import LocalStorage


def publish(found: destination.Destination, share: destination.Share, *, query: str, batch: int) -> bool:
    with found.held() as publication:
        return publication.publish(share, query=query, batch=batch)


@pytest.fixture
def topic_path(tmp_path: Path) -> Path:
    """An empty topic `orders` of 3 partitions, in a directory of topics."""
    Topic.create(tmp_path / "topics" / "orders", partitions=3).close()
    return tmp_path / "topics" / "orders"


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    """An empty log."""
    seglog.open(tmp_path / "log").close()
    return tmp_path / "log"


def staged(path: Path, values: list[bytes], batch: str = "q-0", topics: list[str] | None = None) -> dict[str, Share]:
    """Return what a task reports that has staged these values."""
    with StagingTask(str(path), None, batch) as task:
        task.take(pa.record_batch({"value": values} if topics is None else {"topic": topics, "value": values}))
        return task.finish()


def values_of(path: Path) -> list[list[bytes | None]]:
    """Return the values of each partition."""
    with Topic.open(path, mode="r") as topic:
        return [[record.value for record in topic.partition(number).scan()] for number in range(topic.partitions)]


def stages_below(path: Path) -> list[Path]:
    return [stage for staging in path.rglob("staging") for batch in staging.iterdir() for stage in batch.iterdir()]


def test_a_writer_that_stays_open_is_waited_for_and_then_named(log_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destination, "LOCK_PATIENCE", 0.1)
    found, share = find(str(log_path), None), staged(log_path, [b"v"])["log"]
    with seglog.open(log_path) as log:
        with pytest.raises(seglog.LogLocked) as caught:
            publish(found, share, query="q", batch=0)
        assert "close the other writer" in caught.value.__notes__[0]
        assert log.next_offset == 0
    assert publish(found, share, query="q", batch=0)
    with seglog.open(log_path, mode="r") as log:
        assert [record.value for record in log.scan()] == [b"v"]


def test_a_topic_whose_writer_closes_in_time_takes_the_batch(topic_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, share = find(str(topic_path), None), staged(topic_path, [b"v"] * 3)["orders"]
    writer = Topic.open(topic_path)
    monkeypatch.setattr("seglog.spark.write.destination.time.sleep", lambda seconds: writer.close())
    assert publish(found, share, query="q", batch=0)
    assert values_of(topic_path) == [[b"v"]] * 3


def test_a_task_that_nobody_waits_for_does_not_disturb_the_cleaning_up(
    log_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, share = find(str(log_path), None), staged(log_path, [b"v"])["log"]
    late = found.stage(0, "q-0")  # a speculative copy that is still running

    def writes_on(storage: LocalStorage, directory: str) -> list[str]:
        late.append_batch(pa.table({"value": [b"v"]}))
        monkeypatch.undo()
        return []

    monkeypatch.setattr("seglog.storage.local.LocalStorage._leaves", writes_on)
    assert publish(found, share, query="q", batch=0)
    assert stages_below(log_path) != []
    assert publish(found, staged(log_path, [b"w"], "q-1")["log"], query="q", batch=1)
    assert stages_below(log_path) == []
    with seglog.open(log_path) as log:
        assert [record.value for record in log.scan()] == [b"v", b"w"]


def test_a_stage_that_was_damaged_is_refused_before_any_partition_takes_its_share(topic_path: Path) -> None:
    found, share = find(str(topic_path), None), staged(topic_path, [b"v"] * 3)["orders"]
    for store in (topic_path / "2" / "staging").rglob("*.store"):
        store.write_bytes(store.read_bytes()[:-1])
    with pytest.raises(seglog.CorruptLog, match="write the batch again"):
        publish(found, share, query="q", batch=0)
    assert values_of(topic_path) == [[], [], []]
    assert not found.is_committed("q", 0)


def test_what_failed_leaves_nothing_of_any_of_its_tasks(topic_path: Path) -> None:
    found = find(str(topic_path), None)
    staged(topic_path, [b"v"] * 3)
    found.stage(1, "q-0").append_batch(pa.table({"value": [b"v"]}))  # of a task that was killed
    kept = staged(topic_path, [b"w"] * 3, "other-0")["orders"]
    found.forget(query="q", batch=0)
    assert {stage.parent.name for stage in stages_below(topic_path)} == {"other-0"}
    assert publish(found, kept, query="other", batch=0)
    assert stages_below(topic_path) == []


def test_what_was_committed_is_never_forgotten(topic_path: Path) -> None:
    found, share = find(str(topic_path), None), staged(topic_path, [b"v"] * 3)["orders"]
    commit(seglog.storage.LocalStorage(topic_path), Transaction(query="q", batch=0, staged=share))
    assert found.is_committed("q", 0)
    found.forget(query="q", batch=0)  # Spark's abort after a commit that failed half-way: looking finishes the batch
    assert values_of(topic_path) == [[b"v"]] * 3
    assert not publish(found, share, query="q", batch=0)
    assert values_of(topic_path) == [[b"v"]] * 3
    found.forget(query="q", batch=0)
    assert values_of(topic_path) == [[b"v"]] * 3


def test_stages_that_nobody_asked_for_go_after_a_day(topic_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staged(topic_path, [b"v"] * 3, "job-dead-0")
    Topic.open(topic_path).close()
    assert len(stages_below(topic_path)) == 3
    later = system_clock() + 25 * 3600 * 1_000_000
    monkeypatch.setattr("seglog.topic.topic.system_clock", lambda: later)
    Topic.open(topic_path).close()
    assert stages_below(topic_path) == []


def test_a_driver_that_died_between_two_topics_has_its_batch_completed_by_the_replay(topic_path: Path) -> None:
    topics = topic_path.parent
    Topic.create(topics / "returns", partitions=1).close()
    for published in (["orders"], ["orders", "returns"]):  # the replay stages everything again
        shares = staged(topics, [b"v"] * 10, topics=["orders", "returns"] * 5)
        for name in published:
            publish(find(str(topics), name), shares[name], query="q", batch=0)
    assert sum(map(len, values_of(topic_path))) == 5
    assert values_of(topics / "returns") == [[b"v"] * 5]
    assert stages_below(topics) == []


def test_everywhere_is_all_that_a_path_can_mean(topic_path: Path, log_path: Path, tmp_path: Path) -> None:
    Topic.create(topic_path.parent / "returns", partitions=1).close()
    assert [found.name for found in everywhere(str(topic_path.parent))] == ["orders", "returns"]
    assert [found.name for found in everywhere(str(topic_path))] == ["orders"]
    assert [found.alone for found in everywhere(str(log_path))] == [True]
    assert everywhere(str(tmp_path)) == everywhere(str(tmp_path / "missing")) == []


def test_what_a_task_reports_survives_json(topic_path: Path) -> None:
    share = [one for ones in staged(topic_path, [b"v"] * 3)["orders"].values() for one in ones]
    assert [type(one).from_json(json.loads(json.dumps(one.to_json()))) for one in share] == share


def test_of_several_topics_none_gets_its_share_before_all_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = {}
    for name in ("a", "b"):
        seglog.Topic.create(tmp_path / name, partitions=1).close()
        shares[name] = staged(tmp_path / name, [b"v"])[name]
    messages = [Staged("q", 0, shares)]
    monkeypatch.setattr(destination, "LOCK_PATIENCE", 0.0)
    sink = BatchSink(WriteOptions.parse({"path": str(tmp_path), "queryId": "q", "batchId": "0"}))
    with Topic.open(tmp_path / "b"), pytest.raises(seglog.LogLocked):
        sink.commit(messages)
    assert values_of(tmp_path / "a") == [[]]
    sink.commit(messages)
    assert [values_of(tmp_path / name) for name in ("a", "b")] == [[[b"v"]], [[b"v"]]]


def test_a_driver_that_gives_up_takes_nothing_from_a_topic_that_another_holds(
    topic_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, share = find(str(topic_path), None), staged(topic_path, [b"v"] * 3)["orders"]
    monkeypatch.setattr(destination, "LOCK_PATIENCE", 0.0)
    with found.held() as publication:
        found.forget(query="q", batch=0)
        assert publication.publish(share, query="q", batch=0)
