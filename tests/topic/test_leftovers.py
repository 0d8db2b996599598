"""What a topic's creation leaves if it does not end: removed by the creation that failed, or by the next opening."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import seglog
from seglog.errors import SeglogError, StorageError
from seglog.storage import LocalStorage
from seglog.topic import Topic
from tests.waiting import HANG_SECONDS

KILLED = """
import os, signal, sys
import seglog
from seglog.topic import opening
from seglog.topic.layout import description
broker, calls = seglog.Broker(sys.argv[1]), iter(range(100))
broker.create_topic("whole", partitions=2)

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def open_partition(*arguments, real=opening.open_partition, **options):
    return kill() if next(calls) == int(sys.argv[2]) else real(*arguments, **options)

opening.open_partition, description.write = open_partition, kill
broker.create_topic("half", partitions=3)
"""
SCARCE = """
import os, resource, sys
import seglog
for limit in range(12, 30, 2):
    root, made = f"{sys.argv[1]}/{limit}", []
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, 1024))
    with seglog.Broker(root) as broker:
        try:
            while len(made) < 6:
                made.append(broker.create_topic(f"t{len(made)}", partitions=4).name)
        except seglog.SeglogError as error:
            assert broker.topics() == made, (limit, broker.topics(), made, error)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
    with seglog.Broker(root) as broker:
        assert broker.topics() == made, (limit, broker.topics(), made)
        assert sorted(os.listdir(root)) == sorted([".groups", ".seglog.lock", *made]), (limit, os.listdir(root))
"""


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=HANG_SECONDS)


@pytest.mark.parametrize("partitions_made", [0, 2, 3])
def test_a_topic_whose_creation_was_killed_is_gone_when_a_broker_opens(tmp_path: Path, partitions_made: int) -> None:
    assert run(KILLED, tmp_path, partitions_made).returncode == -signal.SIGKILL
    assert (tmp_path / "half").is_dir()
    with seglog.Broker(tmp_path) as broker:
        assert broker.topics() == ["whole"]
        (event,) = broker.recovered
        assert "'half' was not created completely" in event
        assert not (tmp_path / "half").exists()
        assert broker.create_topic("half", partitions=1).append(b"v") == (0, 0)
    with seglog.Broker(tmp_path) as broker:
        assert broker.recovered == ()


def test_a_directory_that_may_hold_records_is_never_removed(tmp_path: Path) -> None:
    with seglog.Broker(tmp_path) as broker:
        broker.create_topic("orders", partitions=3).append(b"v", partition=1)
    (tmp_path / "orders" / "topic.json").unlink()  # lost: it looks like one that was not created completely
    (tmp_path / "notes" / "0").mkdir(parents=True)
    (tmp_path / "notes" / "text").write_text("mine")
    (tmp_path / "copies" / "logs").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    with seglog.Broker(tmp_path) as broker:
        assert broker.recovered == ()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_topic_that_another_process_is_creating_is_left_alone(tmp_path: Path) -> None:
    with Topic.create(tmp_path / "orders", partitions=2):
        (tmp_path / "orders" / "topic.json").rename(tmp_path / "topic.json.kept")  # as before its last step
        with seglog.Broker(tmp_path) as broker:
            (event,) = broker.recovered
        assert "left unchanged" in event
        assert sorted(path.name for path in (tmp_path / "orders").iterdir()) == [".seglog.lock", "0", "1"]
        (tmp_path / "topic.json.kept").rename(tmp_path / "orders" / "topic.json")


def test_creations_refused_for_want_of_descriptors_leave_neither_topics_nor_directories(tmp_path: Path) -> None:
    ended = run(SCARCE, tmp_path)
    assert ended.returncode == 0, ended.stderr


def test_a_creation_whose_last_sync_fails_leaves_no_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = LocalStorage.sync_directory

    def refuse(self: LocalStorage, directory: str = "") -> None:
        if (Path(self.path) / directory / "topic.json").exists():
            raise StorageError(errno.EIO, "Input/output error", self.path)
        real(self, directory)

    with seglog.Broker(tmp_path) as broker:
        with monkeypatch.context() as patch:
            patch.setattr(LocalStorage, "sync_directory", refuse)
            with pytest.raises(StorageError):
                broker.create_topic("orders", partitions=2)
        assert broker.topics() == []
        assert not (tmp_path / "orders").exists()
    with seglog.Broker(tmp_path) as broker:
        assert (broker.topics(), broker.recovered) == ([], ())


def test_a_creation_that_is_refused_keeps_the_directory_it_found(tmp_path: Path) -> None:
    root = tmp_path / "mine"
    root.mkdir()
    (root / "1").write_text("a file in the place of a partition")
    with pytest.raises(SeglogError):
        Topic.create(root, partitions=2)
    assert sorted(path.name for path in root.iterdir()) == ["1"]
