"""A partition knows which one it is: directories that were exchanged or copied are noticed, and can be accepted."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import Topic
from seglog.topic.repair import repair_place, verify_place

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(root: Path) -> Path:
    with Topic.create(root, partitions=3) as topic:
        for number in range(3):
            topic.append(b"in %d" % number, partition=number)
    return root


def exchange(root: Path, one: int, other: int) -> None:
    (root / str(one)).rename(root / "aside")
    (root / str(other)).rename(root / str(one))
    (root / "aside").rename(root / str(other))


def problems(root: Path) -> list[tuple[str, str]]:
    return [(problem.kind, problem.path) for problem in verify_place(root).topics[0].problems]


@pytest.mark.parametrize("mode", ["a", "r"])
def test_exchanged_partitions_are_refused_and_found_and_opened_again_when_put_back(root: Path, mode: Any) -> None:
    exchange(root, 0, 2)
    with pytest.raises(seglog.CorruptLog, match="partition 2 of this topic, in the directory of partition 0"):
        Topic.open(root, mode=mode)
    assert problems(root) == [("exchanged", f"{root}/0"), ("exchanged", f"{root}/2")]
    exchange(root, 0, 2)
    assert problems(root) == []
    with Topic.open(root, mode=mode) as topic:
        assert topic.partition(0).read(0).value == b"in 0"


def test_a_partition_that_was_copied_from_another_topic_is_refused(root: Path) -> None:
    with Topic.create(root.with_name("other"), partitions=2) as other:
        other_id = other.id
    shutil.rmtree(root / "1")
    shutil.copytree(root.with_name("other") / "1", root / "1")
    with pytest.raises(seglog.CorruptLog, match=f"of another topic \\(id {other_id}\\)"):
        Topic.open(root)


def test_a_repair_accepts_exchanged_partitions_where_they_are(root: Path) -> None:
    exchange(root, 0, 1)
    told = repair_place(root, dry_run=True)
    assert [action.kind for action in told.topics[0].repair.actions] == ["accept", "accept"]  # type: ignore[union-attr]
    assert len(problems(root)) == 2
    repair_place(root)
    assert problems(root) == []
    with Topic.open(root) as topic:
        assert [topic.partition(number).read(0).value for number in range(3)] == [b"in 1", b"in 0", b"in 2"]


def test_a_lost_topic_json_is_written_again_with_the_id_that_the_partitions_know(root: Path) -> None:
    with Topic.open(root) as topic:
        known = topic.id
    (root / "topic.json").unlink()
    repair_place(root)
    with Topic.open(root) as topic:
        assert topic.id == known
        assert topic.partition(2).read(0).value == b"in 2"


def test_a_topic_that_was_moved_or_copied_as_a_whole_opens_and_so_does_a_partition_alone(root: Path) -> None:
    copy = shutil.copytree(root, root.with_name("copy"))
    with Topic.open(copy) as topic:
        assert topic.partition(1).read(0).value == b"in 1"
    with seglog.open(copy / "2") as log:
        assert log.read(0).value == b"in 2"
    with Topic.open(copy) as topic:
        assert topic.partitions == 3


def test_partitions_of_an_earlier_version_learn_which_they_are_with_the_next_change_of_their_segments(
    root: Path,
) -> None:
    for number in range(3):
        shutil.rmtree(root / str(number))
        seglog.open(root / str(number)).close()
    with Topic.open(root) as topic:
        for number in range(3):
            topic.append(b"v", partition=number)
        for number in range(3):
            topic.partition(number).truncate(0)
    exchange(root, 1, 2)
    with pytest.raises(seglog.CorruptLog, match="partition 2 of this topic"):
        Topic.open(root)
