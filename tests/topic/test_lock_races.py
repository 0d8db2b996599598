"""Two processes that open at the same moment: each step between which the other one may come."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import seglog
from seglog.format.filename import LOCK, TREE_LOCK
from seglog.storage import LocalStorage, Lock
from seglog.storage.local import LocalLock

Meanwhile = Callable[[LocalStorage, str], None]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with seglog.Broker(tmp_path / "shop") as broker:
        broker.create_topic("orders", partitions=2)
    return tmp_path / "shop"


@pytest.fixture
def race(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Let another process act right before, or right after, a lock is taken."""
    take = LocalStorage.try_lock

    def nothing(_: LocalStorage, __: str) -> None:
        pass

    def arrange(*, before: Meanwhile = nothing, after: Meanwhile = nothing) -> None:
        def try_lock(storage: LocalStorage, name: str, *, shared: bool = False) -> LocalLock | None:
            before(storage, name)
            lock = take(storage, name, shared=shared)
            after(storage, name)
            return lock

        monkeypatch.setattr(LocalStorage, "try_lock", try_lock)

    yield arrange
    monkeypatch.undo()


def test_a_directory_that_is_locked_while_a_log_in_it_is_opened_has_one_writer(
    shop: Path, race: Callable[..., None]
) -> None:
    for lock in shop.rglob(TREE_LOCK):
        lock.unlink()
    held: list[Lock | None] = []
    take = LocalStorage.try_lock

    def lock_directory(_: LocalStorage, name: str) -> None:
        if name == LOCK and not held:
            held.append(take(LocalStorage(shop / "orders"), TREE_LOCK))

    race(before=lock_directory)
    with pytest.raises(seglog.LogLocked):
        seglog.open(shop / "orders" / "0")
    assert held


def test_a_lock_whose_file_was_removed_while_it_was_taken_does_not_count(shop: Path, race: Callable[..., None]) -> None:
    def remove(storage: LocalStorage, name: str) -> None:
        Path(storage.path, name).unlink()

    race(after=remove)
    with pytest.raises(seglog.LogLocked):
        seglog.open(shop / "orders" / "0")


def test_an_opening_that_is_refused_takes_no_lock_that_the_writer_may_need(
    shop: Path, race: Callable[..., None]
) -> None:
    tried: list[str] = []
    with seglog.Broker(shop):
        race(before=lambda _, name: tried.append(name))
        with pytest.raises(seglog.LogLocked):
            seglog.open(shop / "orders" / "0")
    assert LOCK not in tried
