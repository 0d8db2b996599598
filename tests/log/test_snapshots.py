"""Every way to read a log in this process or beside its writer, with every change of the log at every step."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.log import leases
from seglog.log.backup import LogBackup
from seglog.storage import LocalStorage
from tests.snapshots import CHANGES, KEYS, State, check, filled, read_beside, state, update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

MOST_STEPS = 30


def pairs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes | None]]:
    """Yield offset and key of each record in batches."""
    for batch in batches:
        yield from zip(batch["offset"].to_pylist(), batch["key"].cast(pa.binary()).to_pylist(), strict=True)


def records(found: Iterable[seglog.Record]) -> Iterator[tuple[int, bytes | None]]:
    return ((record.offset, record.key) for record in found)


READS: dict[str, Callable[[Any], Iterator[tuple[int, bytes | None]]]] = {
    "scan": lambda log: records(log.scan()),
    "batches": lambda log: pairs(log.batches(max_records=3)),
    "arrow stream": lambda log: pairs(pa.RecordBatchReader.from_stream(log)),
}


def in_writer(log: seglog.Log, _: Path, read: Any) -> Iterator[Any]:
    return read(log)


def beside_writer(_: seglog.Log, path: Path, read: Any) -> Iterator[Any]:
    with seglog.open(path, mode="r") as reader:
        yield from read(reader)


def of_no_name(_: seglog.Log, path: Path, read: Any) -> Iterator[Any]:
    """Read by an iterator alone: nothing else refers to the reader."""
    found = read(seglog.open(path, mode="r"))
    gc.collect()
    return found


PLACES: dict[str, Callable[..., Iterator[Any]]] = {
    "in the writer": in_writer,
    "beside the writer": beside_writer,
    "of no name": of_no_name,
}


def all_steps(full: bool) -> Iterable[int]:
    return range(MOST_STEPS) if full else (3,)


FULL = pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.proof)], ids=["few", "all"])


@pytest.fixture
def without_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_take", lambda *_: None)


@FULL
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("place", PLACES)
def test_a_read_that_keeps_its_files_returns_the_log_as_it_was(
    place: str, read: str, change: str, tmp_path: Path, full: bool
) -> None:
    for steps in all_steps(full):
        with filled(tmp_path / f"log{steps}") as log:
            was = state(log)
            reader = PLACES[place](log, tmp_path / f"log{steps}", READS[read])
            found, expired = read_beside(reader, steps, lambda log=log: CHANGES[change](log))
            del reader
            if steps or place != "beside the writer":  # which begins with its first record
                assert not expired
                check(found, was, expired=False)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("read", READS)
def test_a_read_that_goes_on_after_its_log_was_closed_is_right_or_says_that_it_cannot_be(
    read: str, change: str, tmp_path: Path
) -> None:
    with filled(tmp_path / "log") as log:
        was = state(log)
        with seglog.open(tmp_path / "log", mode="r") as reader:
            rest = READS[read](reader)
            first = next(rest)
        found, expired = read_beside(rest, 3, lambda: CHANGES[change](log))
        check([first, *found], was, expired=expired)


@FULL
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("read", READS)
@pytest.mark.usefixtures("without_leases")
def test_a_reader_that_may_not_write_its_lease_returns_the_log_as_it_was_or_says_that_it_cannot(
    read: str, change: str, tmp_path: Path, full: bool
) -> None:
    expirations = 0
    for steps in all_steps(full):
        with filled(tmp_path / f"log{steps}") as log:
            was = state(log)
            reader = READS[read](seglog.open(tmp_path / f"log{steps}", mode="r"))
            found, expired = read_beside(reader, steps, lambda log=log: CHANGES[change](log))
            check(found, was, expired=expired)
            expirations += expired
    assert expirations or change == "appended", "else nothing was tried"


@pytest.mark.usefixtures("without_leases")
def test_a_log_that_was_replaced_is_not_read_on_in_the_new_one(tmp_path: Path) -> None:
    with filled(tmp_path / "log") as log:
        was = state(log)
        reader = READS["scan"](seglog.open(tmp_path / "log", mode="r"))

        def replace() -> None:
            log.remove()
            filled(tmp_path / "log").close()

        found, expired = read_beside(reader, 3, replace)
        assert expired
        check(found, was, expired=True)


@FULL
@pytest.mark.parametrize("leased", [True, False], ids=["leased", "not leased"])
@pytest.mark.parametrize("change", [name for name in CHANGES if name not in ("cut", "expired", "deleted before")])
def test_a_tail_passes_each_position_once_and_gets_the_newest_record_of_every_key(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leased: bool, full: bool
) -> None:
    if not leased:
        monkeypatch.setattr(leases, "_take", lambda *_: None)
    for steps in all_steps(full):
        with filled(tmp_path / f"log{steps}") as log, seglog.open(tmp_path / f"log{steps}", mode="r") as reader:
            tail = reader.tail(0)
            found: State = []
            while len(found) < steps:
                found += records(tail.poll(1))
            CHANGES[change](log)
            while polled := tail.poll(3):
                found += records(polled)
            offsets = [offset for offset, _ in found]
            assert offsets == sorted(set(offsets))
            newest = {key: offset for offset, key in state(log)}
            assert newest.items() <= {key: offset for offset, key in found}.items()


@pytest.mark.usefixtures("without_leases")
def test_calls_that_read_one_moment_look_again_when_a_compaction_deletes_their_files(tmp_path: Path) -> None:
    with filled(tmp_path / "log") as log, seglog.open(tmp_path / "log", mode="r") as reader:
        index = seglog.KeyIndex(reader)
        keys = [b"k%d" % number for number in range(KEYS)]
        view = reader.view
        beside = iter([lambda: CHANGES["superseded and compacted"](log)] * 3)

        def view_then_change() -> Any:
            found = view()
            next(beside, lambda: None)()
            return found

        for read in (
            lambda: reader.read_keys(keys),
            lambda: index.read_keys(keys),
            lambda: {one.key: one for one in reader.read_many(range(log.next_offset), skip_compacted=True)},
        ):
            beside = iter([lambda: CHANGES["superseded and compacted"](log)] * 3)
            reader.view = view_then_change  # type: ignore[method-assign] # as if the writer were that fast
            assert set(read()) == set(keys)
            reader.view = view  # type: ignore[method-assign]


@pytest.mark.usefixtures("without_leases")
def test_a_backup_beside_a_compaction_is_whole_or_says_that_it_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, brought = LogBackup._bring_sealed, []

    def then_compact(self: LogBackup, entry: Any) -> None:
        real(self, entry)
        brought.append(entry)
        if len(brought) == 1:
            update(log)
            log.compact(roll=True)

    monkeypatch.setattr(LogBackup, "_bring_sealed", then_compact)
    with filled(tmp_path / "log") as log, seglog.open(tmp_path / "log", mode="r") as reader:
        with pytest.raises(seglog.SnapshotExpired):
            reader.backup(tmp_path / "copy")
        reader.backup(tmp_path / "copy")
        with seglog.open(tmp_path / "copy", mode="r") as copy:
            assert state(copy) == state(log)


@pytest.mark.usefixtures("without_leases")
def test_a_backup_goes_on_without_a_lookup_that_a_compression_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, opened = LocalStorage.open, []

    def open_after_compression(self: LocalStorage, name: str, **options: Any) -> Any:
        if name.endswith(".times") and not opened:
            opened.append(name)
            log.compress()
        return real(self, name, **options)

    with filled(tmp_path / "log") as log, seglog.open(tmp_path / "log", mode="r") as reader:
        log.alter(compression="zstd")
        was = state(log)
        monkeypatch.setattr(LocalStorage, "open", open_after_compression)
        with suppress(seglog.SnapshotExpired):  # of the next segment
            reader.backup(tmp_path / "copy")
        assert opened
        reader.backup(tmp_path / "copy")
        with seglog.open(tmp_path / "copy", mode="r") as copy:
            assert state(copy) == was
