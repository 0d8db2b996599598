"""What tests of topics share.

For transactions: a topic to publish to, and one whose every file operation can fail. For the cleaner: logs by name.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa
import pytest

import seglog
from seglog import Broker
from seglog.log.staging import Stage, StagedSegment
from seglog.storage import LocalStorage
from seglog.testing.faulty import Crashed, Fault, FaultyStorage
from seglog.topic import Topic
from seglog.topic.cleaning import Cleaner, Event, LogState
from tests.earlier_policies import SERVER, store_with_logs, stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

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

    def __init__(self, root: Path) -> None:
        self.template = Scene(root / "template")
        self.template.make().close()
        self.staged = self.template.stage()
        self._copies = root / "runs"
        self._copies.mkdir()

    def publish(self, topic: Topic) -> Any:
        """Publish the batch that the template has staged."""
        return topic.publish(self.staged, query="q", batch=0)

    def die_publishing(self, fault: Fault) -> None:
        """Let a process die in publishing to the template."""
        storage = FaultyStorage(LocalStorage(self.template.root))
        topic = Topic.open(storage)
        storage.fault = fault
        with pytest.raises(Crashed):
            self.publish(topic)

    def runs(
        self, operation: Callable[[Topic], Any], fault: Fault, *, opening: bool = False, every: int = 1
    ) -> Iterator[Run]:
        """Yield the runs with a fault at the first call, at the one `every` calls later, ..., and one without a fault.

        opening: count calls from the open on.
        """
        for at in itertools.count(1, every):
            scene = Scene(self._copies / str(at))
            subprocess.run(["cp", "-a", self.template.root, scene.root], check=True)  # two names of one file stay that
            storage, plan = FaultyStorage(LocalStorage(scene.root)), replace(fault, at=at)
            storage.fault = plan if opening else None
            topic, error = None, None
            try:
                topic = Topic.open(storage)
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
def broker(root: Path) -> Iterator[Broker]:
    with Broker(root) as opened:
        yield opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where nothing is yet: the place of a topic, or of a broker."""
    return tmp_path / "orders"


@pytest.fixture
def topic(root: Path) -> Iterator[Topic]:
    """An empty topic of three partitions of small segments."""
    with Topic.create(root, partitions=3, config=seglog.LogConfig(segment_bytes=512)) as made:
        yield made


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "orders")


@pytest.fixture
def laboratory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TopicLaboratory:
    """What dies here is a process, and the kernel keeps what it wrote: thousands of real syncs would only take time."""
    monkeypatch.setattr("seglog.storage.local_file.sync_data", lambda _descriptor: None)
    monkeypatch.setattr(LocalStorage, "_sync", staticmethod(lambda _path: None))
    return TopicLaboratory(tmp_path)


class Hooked(FaultyStorage):
    """A storage that calls `hook` once, when a compaction begins to write: it is under way then, and holds no lock."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.hook: Callable[[], object] | None = None

    def create(self, name: str, *, replace: bool = False) -> Any:
        if name.startswith("staging/") and self.hook is not None:
            hook, self.hook = self.hook, None
            hook()
        return super().create(name, replace=replace)


class SmallDisk(FaultyStorage):
    """A storage with little space left."""

    free = 100

    def free_bytes(self, directory: str = "") -> int:
        return self.free


class Fleet:
    """Keyed logs by name, on a medium, and cleaners over all of them with one clock."""

    KINDS: ClassVar[dict[str | None, Any]] = {"hooked": Hooked, "full": SmallDisk, "faulty": FaultyStorage}

    def __init__(self, clock: Any, shop_at: Any, place: Callable[[str], Any]) -> None:
        self.clock = clock
        self.logs: dict[str, seglog.Log] = {}
        self.storages: dict[str, Any] = {}
        self.told: list[Event] = []
        self._shop_at = shop_at
        self.place = place

    def log(self, name: str, text: str = "", *, on: str | None = None, **config: Any) -> Any:
        """Open a log and put in what the text says. on: what it stands on, hooked, full or faulty."""
        if name not in self.storages:
            self.storages[name] = {None: lambda inner: inner, **self.KINDS}[on](self.place(name))
        self.logs[name] = self._shop_at(self.storages[name]).open(**config)
        self.put(name, text)
        return self.logs[name]

    def put(self, name: str, text: str) -> None:
        self._shop_at(self.storages[name]).put(self.logs[name], text)

    def content(self, name: str) -> str:
        return self._shop_at(self.storages[name]).content(self.logs[name])

    def cleaner(self, **options: Any) -> Cleaner:
        return Cleaner(self.logs, clock=self.clock, on_event=self.told.append, **options)

    @staticmethod
    def done(events: tuple[Event, ...]) -> list[tuple[str, str]]:
        return [(event.what, event.name) for event in events]

    @staticmethod
    def state_of(cleaner: Cleaner, name: str) -> LogState:
        return next(state for state in cleaner.state() if state.name == name)

    def close(self) -> None:
        for log in self.logs.values():
            log.close()


@pytest.fixture
def local_fleet(tmp_path: Path, clock: Any, shop_at: Any) -> Iterator[Fleet]:
    """Logs on the file system."""
    made = Fleet(clock, shop_at, lambda name: seglog.LocalStorage(tmp_path / name))
    yield made
    made.close()


@pytest.fixture(params=["local", "memory"])
def fleet(request: Any, tmp_path: Path, clock: Any, shop_at: Any) -> Iterator[Fleet]:
    """Logs on either medium."""
    on_disk = request.param == "local"
    made = Fleet(
        clock, shop_at, lambda name: seglog.LocalStorage(tmp_path / name) if on_disk else seglog.MemoryStorage()
    )
    yield made
    made.close()


@pytest.fixture
def earlier(root: Path) -> Path:
    """A directory of topics whose topic `orders` has its policies where earlier versions stored them."""
    with Broker(root) as broker:
        topic = broker.create_topic("orders", partitions=2)
        topic.append(b"v", partition=0)
        store_with_logs(topic, SERVER)
    assert stored(root / "orders")["format_version"] == 1
    return root
