"""A storage that seglog does not know works wherever a path does: the one of docs/storage.md."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pyarrow as pa
import pytest

import seglog
import seglog.aio
from seglog import LogConfig, Retention
from seglog.replication import diff, fence, promote
from seglog.server import Settings, serve
from seglog.storage import register_scheme
from seglog.storage.urls import is_storage_url
from seglog.topic.audit import audit_keys
from seglog.topic.repair import repair_place, verify_place
from tests.storage.guide import DictStorage
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEYED = LogConfig(retention=Retention(compact=True), segment_bytes=2000)


@pytest.fixture
def shop() -> Any:
    """A directory of topics in a dict, with 100 records and a group that read half of them."""
    place = DictStorage()
    with seglog.Broker(place) as broker:
        orders = broker.create_topic("orders", partitions=2, config=KEYED)
        for number in range(100):
            orders.append(b"%d" % number, key=b"%d" % (number % 10))
        with broker.consumer("billing", ["orders"]) as consumer:
            consumer.poll(max_records=50)
            consumer.commit()
    return place


def values(place: Any, partition: int) -> list[Any]:
    with seglog.Topic.open(place, mode="r") as topic:
        return [record.value for record in topic.partition(partition).scan()]


class Running:
    """A server in a thread of this process."""

    def __init__(self, root: Any, **settings: Any) -> None:
        self.said: list[str] = []
        self._listening, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(root, Settings(port=0, **settings)))

    def _serve(self, root: Any, settings: Settings) -> None:
        serve(root, settings, self._say, stop=self._stop)

    def _say(self, line: str) -> None:
        self.said.append(line)
        if "listening on" in line:
            self._listening.set()

    def __enter__(self) -> str:
        self._thread.start()
        assert self._listening.wait(HANG_SECONDS)
        return next(line for line in self.said if "listening on" in line).removeprefix("listening on ")

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(HANG_SECONDS)
        assert not self._thread.is_alive()
        assert self.said[-1] == "stopped; everything acknowledged is on disk"


def test_a_log_a_topic_and_a_broker(shop: Any) -> None:
    with seglog.Broker(shop, mode="r") as broker:
        assert broker.topics() == ["orders"]
        assert sum(broker.groups.committed("billing")["orders"].values()) == 50
    place = DictStorage()
    with seglog.open(place, KEYED) as log:
        log.append_batch(pa.table({"value": pa.array([b"v"] * 300, pa.binary()), "key": pa.array([b"k"] * 300)}))
        log.append_stream([b"a", b"b"], key=b"k")
        assert log.compact(roll=True).records_after == 1
        with seglog.open(place, mode="r") as reader:
            assert [record.value for record in reader.scan()] == [b"ab"]
            assert reader.verify().ok


def test_verify_and_repair(shop: Any) -> None:
    assert verify_place(shop).ok
    assert not repair_place(shop).actions
    log = DictStorage()
    with seglog.open(log) as writer:
        for _ in range(10):
            writer.append(b"v" * 100)
    store = next(name for name in log.names() if name.endswith(".store"))
    log.open(store, writable=True).pwrite(b"damage", 300)
    assert not seglog.verify(log).ok
    assert seglog.repair(log).actions
    assert seglog.verify(log).ok
    with seglog.open(log) as again:
        assert 0 < sum(1 for _ in again.scan()) < 10


@pytest.mark.parametrize("kind", ["log", "broker"])
def test_a_backup_into_and_out_of_it(shop: Any, tmp_path: Path, kind: str) -> None:
    target, restored = DictStorage("copy"), tmp_path / "restored"
    if kind == "broker":
        assert seglog.backup(shop, target).copied > 0
        again = seglog.backup(shop, target)
        assert again.kept > 0, "a second one copies only what is new"
        assert seglog.backup(target, restored).shared == 0
        assert [values(restored / "orders", n) for n in (0, 1)] == [
            values(seglog.storage.Subdirectory(shop, "orders"), n) for n in (0, 1)
        ]
        with seglog.Broker(restored, mode="r") as broker:
            assert broker.groups.committed("billing")
        with pytest.raises(seglog.InvalidArgument, match="is the source"):
            seglog.backup(shop, shop)
        return
    with seglog.open(tmp_path / "log") as log:
        log.append(b"v")
        assert log.backup(target).shared == 0
        log.append(b"w")
        log.backup(target)
    with seglog.open(target, mode="r") as copy:
        assert [record.value for record in copy.scan()] == [b"v", b"w"]


def test_files_of_the_same_name_on_the_disk_are_never_shared(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", LogConfig(segment_bytes=600)) as log:
        for _ in range(20):
            log.append(b"disk" * 20)
    place = DictStorage(str(tmp_path / "log"))  # its paths name the files above
    with seglog.open(place, LogConfig(segment_bytes=600)) as log:
        for _ in range(20):
            log.append(b"dict" * 20)
        assert log.backup(tmp_path / "copy").shared == 0
    with seglog.open(tmp_path / "copy", mode="r") as copy:
        assert {record.value for record in copy.scan()} == {b"dict" * 20}


def test_an_audit_and_a_cleaner(shop: Any) -> None:
    with audit_keys(shop, delivered={"orders": {0: 10, 1: 1000}}) as found:
        assert found.total("keys") == 10
        assert not found.ok
        assert sum(batch.num_rows for batch in found.undelivered("consumer")) > 0
    with seglog.Broker(shop) as broker, seglog.Cleaner.of_topic(broker.topic("orders")) as cleaner:
        cleaner.run_once()


def test_a_mirror_from_it_and_to_it(shop: Any, tmp_path: Path) -> None:
    with seglog.Mirror(shop, tmp_path / "copy") as mirror:
        mirror.step()
    second = DictStorage("second")
    with seglog.Mirror(tmp_path / "copy", second) as mirror:
        mirror.step()
        assert mirror.lag.records == 0
    assert diff(shop, second).same
    term = promote(second)
    with seglog.Broker(second) as broker:
        broker.topic("orders").append(b"new", key=b"k")
    fence(shop, term)
    with pytest.raises(seglog.LogFenced):
        seglog.Broker(shop)
    assert diff(shop, second).behind == {"orders/0": -1}


def test_a_replay_with_snapshots_in_it(shop: Any) -> None:
    class Sum:
        def initial(self) -> int:
            return 0

        def apply(self, state: int, record: seglog.Record) -> int:
            return state + int(record.value or b"0")

        def encode(self, state: int) -> bytes:
            return b"%d" % state

        def decode(self, data: bytes) -> int:
            return int(data)

    orders, kept = seglog.storage.Subdirectory(shop, "orders"), DictStorage("snapshots")
    for _ in range(2):
        found = seglog.replay(orders, Sum(), snapshots=kept)
        assert sum(one.state for one in found.partitions.values()) == sum(range(100))
    assert kept.names()


def test_an_archive_of_it(shop: Any, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/archive"
    with seglog.Archiver(shop, url) as archiver:
        archiver.step()
    seglog.restore(url, tmp_path / "restored")
    assert diff(shop, tmp_path / "restored").same


def test_the_awaited_calls(shop: Any) -> None:
    async def story() -> None:
        async with await seglog.aio.AsyncBroker.open(shop) as broker:
            orders = await broker.topic("orders")
            await orders.append(b"v", key=b"k")
            assert await broker.free_bytes() == 2**40

    anyio.run(story)


def test_a_server_in_a_thread(shop: Any) -> None:
    with Running(shop) as url, seglog.Client(url) as client:
        orders = client.topic("orders")
        assert sum(at.next_offset for at in orders.bounds().values()) == 100
        assert {record.key for number in range(2) for record in orders.records(number)} == {
            b"%d" % n for n in range(10)
        }
        assert orders.append(b"over HTTP", key=b"k", ack="durable")[1] >= 0
        client.create_topic("more").append(b"v")
        with client.consumer("billing", ["orders"]) as consumer:
            assert b"over HTTP" in [record.value for record in consumer.poll(timeout=HANG_SECONDS)]
        assert client.health()["status"] == "ok"
        with pytest.raises(seglog.LogLocked):
            seglog.Broker(shop)
    with seglog.Broker(shop) as broker:
        assert broker.topics() == ["default", "more", "orders"]


def test_a_server_that_follows_into_it_and_one_that_archives_it(shop: Any, tmp_path: Path) -> None:
    copy = DictStorage("copy")
    with Running(shop, archive=f"file://{tmp_path}/archive", archive_seconds=0.05) as leader:
        with seglog.Client(leader) as client:
            client.topic("orders").append(b"v", key=b"k")
        with Running(copy, follow=leader) as follower, seglog.Client(follower) as client:
            orders = client.topic("orders")
            assert sum(at.next_offset for at in orders.bounds().values()) == 101
    assert diff(shop, copy).same
    seglog.restore(f"file://{tmp_path}/archive", tmp_path / "restored")
    assert diff(shop, tmp_path / "restored").same


# --- by URL ----------------------------------------------------------------------------------------------------------

SHELF = '''
from seglog.storage import LocalStorage

class Shelf:
    """Another storage: it has the methods of a local one, and is none."""

    def __init__(self, url):
        self._inner, self.path = LocalStorage(url.removeprefix("shelf://")), url

    def __getattr__(self, name):
        return getattr(self._inner, name)
'''


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """A distribution that is installed for child processes: the scheme shelf:// of its storage."""
    site = tmp_path / "site"
    info = site / "shelf-1.dist-info"
    info.mkdir(parents=True)
    (site / "shelf_storage.py").write_text(SHELF)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[seglog.storages]\nshelf = shelf_storage:Shelf\n")

    def run(*arguments: str) -> str:
        paths = os.pathsep.join([str(site), *sys.path])
        done = subprocess.run(
            [sys.executable, "-m", "seglog", *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run  # type: ignore[return-value] # a fixture that returns needs no iterator


def test_an_installed_scheme_works_on_the_command_line(shelf: Callable[..., str], tmp_path: Path) -> None:
    with seglog.Broker(tmp_path / "shop") as broker:
        orders = broker.create_topic("orders", partitions=2)
        for number in range(10):
            orders.append(b"%d" % number, partition=number % 2)
    url = f"shelf://{tmp_path}/shop"
    assert shelf("read", f"{url}/orders/1", "--format", "%s\\n").split() == ["1", "3", "5", "7", "9"]
    shelf("backup", url, str(tmp_path / "copy"))
    shelf("mirror", url, f"shelf://{tmp_path}/mirrored", "--once")
    assert diff(tmp_path / "shop", tmp_path / "mirrored").same
    assert diff(tmp_path / "shop", tmp_path / "copy").same


def test_a_registered_scheme_works_wherever_a_path_does(shop: Any, tmp_path: Path) -> None:
    def at(url: str) -> Any:
        inner = url.removeprefix("dict-shop://x").strip("/")
        return seglog.storage.Subdirectory(named, inner) if inner else named

    named = shop
    named.path = "dict-shop://x"
    register_scheme("dict-shop", at)
    assert is_storage_url("dict-shop://x/orders")
    with seglog.open("dict-shop://x/orders/0", mode="r") as log:
        assert log.next_offset > 0
    with audit_keys("dict-shop://x") as found:
        assert found.total("keys") == 10
    with seglog.Mirror("dict-shop://x", tmp_path / "copy") as mirror:
        mirror.step()
    assert diff("dict-shop://x", tmp_path / "copy").same
    assert seglog.backup("dict-shop://x/orders", tmp_path / "backup").copied > 0


@pytest.mark.parametrize("scheme", ["s3", "http", "https", "file", "", "A", "a b", "://", 5, None])
def test_a_scheme_with_another_meaning_is_refused(scheme: Any) -> None:
    with pytest.raises(seglog.InvalidArgument):
        register_scheme(scheme, DictStorage)
    with pytest.raises(seglog.InvalidType):
        register_scheme("mine", 5)  # type: ignore[arg-type] # the wrong type is the test
    assert not is_storage_url("mine://x")
