"""What the tests of transactions share: a topic to publish to, and one whose every file operation can fail."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa
import pytest

import seglog
from seglog.log.opening import open_log
from seglog.log.staging import Stage, StagedSegment
from seglog.storage import LocalStorage, Subdirectory
from seglog.testing.faulty import Crashed, Fault, FaultyStorage
from seglog.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Values = dict[int, list[bytes]]
Share = dict[int, list[StagedSegment]]


class Scene:
    """A topic of four partitions that holds OLD, and a batch NEW for three of them."""

    CONFIG = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64)
    OLD: ClassVar[Values] = {0: [b"a0", b"a1"], 1: [], 2: [b"c0"], 3: [b"d0"]}
    NEW: ClassVar[Values] = {0: [b"new a%d " % number * 8 for number in range(8)], 1: [b"new b"], 3: [b"new d"]}

    def __init__(self, root: Path) -> None:
        self.root = root

    def make(self) -> Topic:
        """Return a new topic, open for writing."""
        topic = Topic.create(self.root, partitions=4, config=self.CONFIG)
        for number, values in self.OLD.items():
            for value in values:
                topic.partition(number).append(value)
        return topic

    def stage(self, values: Mapping[int, list[bytes]] = NEW, batch: str = "q-0") -> Share:
        """Stage values (partition -> values) as the tasks of a batch do."""
        staged = {}
        for number, rows in values.items():
            with Stage(LocalStorage(self.root / str(number)), batch) as one:
                one.append_batch(pa.table({"value": rows}))
                staged[number] = one.finish()
        return staged

    @staticmethod
    def values(topic: Topic) -> Values:
        """Return partition -> its values."""
        logs = {number: topic.partition(number) for number in range(topic.partitions)}
        return {number: [record.value or b"" for record in log.scan()] for number, log in logs.items()}

    @classmethod
    def joined(cls, *parts: Mapping[int, list[bytes]]) -> Values:
        """Return partition -> the values of all parts, one part behind the other."""
        return {number: [value for part in parts for value in part.get(number, [])] for number in cls.OLD}

    def transactions(self) -> list[str]:
        """Return the files of transactions that are not finished."""
        return sorted(file.name for file in (self.root / "txn").glob("*.json"))

    def check_sound(self, topic: Topic) -> None:
        """No transaction waits, every byte verifies, nothing was set aside, each store is one a manifest names."""
        assert self.transactions() == []
        for number in range(topic.partitions):
            log, directory = topic.partition(number), self.root / str(number)
            assert log.verify().problems == ()
            assert list((directory / "quarantine").iterdir()) == []
            assert {file.name for file in directory.glob("*.store")} == {segment.name for segment in log.segments}


class Run(NamedTuple):
    """What one run left. topic: None where it ended while opening; error: what ended it, if anything."""

    scene: Scene
    storage: FaultyStorage
    topic: Topic | None
    error: BaseException | None


class TopicLaboratory:
    """Runs an operation again and again on copies of a topic, each time going wrong one call later.

    Every call counts, of the topic's own storage and of its partitions': they are all parts of one faulty storage.
    """

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.template = Scene(root / "template")
        self.template.make().close()
        self.staged = self.template.stage()
        self._copies = root / "runs"
        self._copies.mkdir()
        self._patch = patch

    @contextmanager
    def _on(self, storage: FaultyStorage) -> Iterator[None]:
        def opened(path: Path, *arguments: Any, **named: Any) -> seglog.Log:
            return open_log(Subdirectory(storage, Path(path).name), *arguments, **named)

        with self._patch.context() as patch:
            patch.setattr("seglog.topic.topic.open_log", opened)
            patch.setattr("seglog.topic.topic.LocalStorage", lambda _path: storage)
            yield

    def publish(self, topic: Topic) -> Any:
        """Publish the batch that the template has staged."""
        return topic.publish(self.staged, query="q", batch=0)

    def die_publishing(self, fault: Fault) -> None:
        """Let a process die in publishing to the template."""
        storage = FaultyStorage(LocalStorage(self.template.root))
        with self._on(storage):
            topic = Topic.open(self.template.root)
            storage.fault = fault
            with pytest.raises(Crashed):
                self.publish(topic)

    def runs(self, operation: Callable[[Topic], Any], fault: Fault, *, opening: bool = False) -> Iterator[Run]:
        """Yield every run until one meets no fault any more; that one too. opening: count calls from the open on."""
        for at in itertools.count(1):
            scene = Scene(self._copies / str(at))
            subprocess.run(["cp", "-a", self.template.root, scene.root], check=True)  # two names of one file stay that
            storage, plan = FaultyStorage(LocalStorage(scene.root)), replace(fault, at=at)
            storage.fault = plan if opening else None
            topic, error = None, None
            with self._on(storage):
                try:
                    topic = Topic.open(scene.root)
                    storage.fault = plan if not opening else storage.fault
                    operation(topic)
                except (Crashed, seglog.SeglogError) as caught:
                    error = caught
            struck = storage.struck
            if fault.error is None:
                storage.crash()  # it dies in the end, too
            yield Run(scene, storage, topic, error)
            storage.crash()
            shutil.rmtree(scene.root)
            if not struck:
                assert at > 1, "the operation makes no such call at all"
                return


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "orders")


@pytest.fixture
def laboratory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TopicLaboratory:
    """What dies here is a process, and the kernel keeps what it wrote: thousands of real syncs would only take time."""
    monkeypatch.setattr("seglog.storage.local._datasync", lambda _descriptor: None)
    monkeypatch.setattr(LocalStorage, "_sync", staticmethod(lambda _path: None))
    return TopicLaboratory(tmp_path, monkeypatch)
