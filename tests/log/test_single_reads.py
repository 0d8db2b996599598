"""Single reads in mode "r": one call of a kernel, which looks at MANIFEST first, and never a record that is gone."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import seglog
from seglog import LogConfig, Retention
from seglog.kernels import point, unchanged
from seglog.log.follower import LogFollower
from seglog.log.manifest_watch import ManifestWatch
from seglog.storage import LocalStorage
from tests.damage import flip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SMALL = LogConfig(segment_bytes=512, retention=Retention(compact=True))
pytestmark = pytest.mark.skipif(unchanged.NUMBER < 0, reason="the kernel needs a system call of Linux")


@pytest.fixture(autouse=True)
def kernels() -> None:
    """Load the kernels, as a batch call does."""
    point.load()
    unchanged.load()


@pytest.fixture
def writer(path: Path) -> Iterator[seglog.Log]:
    with seglog.open(path, SMALL) as log:
        fill(log, b"first", 40)
        yield log


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the offsets that were not read with one call."""
    offsets: list[int] = []
    read = LogFollower._read

    def watched(self: LogFollower, offset: int, keep: int | None) -> seglog.Record:
        offsets.append(offset)
        return read(self, offset, keep)

    monkeypatch.setattr(LogFollower, "_read", watched)
    return offsets


def fill(log: seglog.Log, mark: bytes, count: int) -> None:
    for number in range(count):
        log.append(mark + b"%d" % number * 9, key=b"%d" % (number % 4), headers=[("mark", mark)] * (number % 3 == 0))


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except seglog.SeglogError as error:
        return type(error).__name__, str(error)


CHANGES: dict[str, Callable[[seglog.Log], object]] = {
    "a truncate": lambda log: log.truncate(17),
    "a truncate of all": lambda log: log.truncate(0),
    "a truncate, and other records": lambda log: (log.truncate(5), fill(log, b"other", 50)),
    "a truncate of the active segment, and as many records": lambda log: (
        log.truncate(log.next_offset - 1),
        fill(log, b"o", 1),
    ),
    "a deletion": lambda log: log.delete_before(23),
    "a deletion of all": lambda log: log.delete_before(log.next_offset),
    "an expiry": lambda log: (log.alter(retention=Retention(bytes=0)), log.expire()),
    "a compaction": lambda log: log.compact(roll=True),
    "a roll": lambda log: fill(log, b"more", 20),
    "nothing": lambda log: None,
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_the_writer_has_changed_is_read_changed_at_once(
    path: Path, writer: seglog.Log, slow: list[int], change: str
) -> None:
    with seglog.open(path, mode="r") as reader:
        for offset in range(40):
            assert reader.read(offset) == writer.read(offset)
        slow.clear()
        assert [reader.read(offset).offset for offset in range(40)] == list(range(40))
        assert all(offset >= writer.view().active.base_offset for offset in slow)  # whose index is still in memory
        CHANGES[change](writer)
        order = random.Random(1).sample(range(-1, 100), 101)
        for _ in range(2):
            for offset in order:
                read, wanted = outcome(reader.read, offset), outcome(writer.read, offset)
                assert read == wanted, offset


def test_records_of_a_log_that_others_cut_are_never_those_before_the_cut(
    path: Path, writer: seglog.Log, together: Any
) -> None:
    """The writer publishes the number of its last cut after it; a record that is read later is of that cut or newer."""
    done, compared = [0], [0]

    def write() -> None:
        for number in range(1, 9999):
            writer.truncate(3)
            fill(writer, b"%04d " % number, 6)
            done[0] = number
            if number >= 60 and compared[0]:
                break
        done[0] = -1

    def read() -> None:
        with seglog.open(path, mode="r") as reader:
            while (least := done[0]) >= 0:
                try:
                    value = reader.read(5).value
                except seglog.OffsetOutOfRange:
                    continue
                assert value is not None
                if least:
                    assert int(value[:4]) >= least
                    compared[0] += 1

    together(write, read, read)
    assert compared[0]


def test_a_log_that_was_moved_away_is_not_read_any_longer(path: Path, slow: list[int]) -> None:
    with seglog.open(path) as log:
        fill(log, b"first", 4)
    with seglog.open(path, mode="r") as reader:
        assert [reader.read(2), reader.read(2)][1].offset == 2
        slow.clear()
        reader.read(2)
        assert slow == []
        os.rename(path, path.with_name("moved"))  # noqa: PTH104 - a directory with an open log
        with pytest.raises(seglog.LogNotFound):
            reader.read(2)
        with seglog.open(path) as other:
            fill(other, b"other", 4)
        with pytest.raises(seglog.LogReplaced):
            reader.read(2)


def test_a_closed_reader_reads_nothing(path: Path, writer: seglog.Log) -> None:
    reader = seglog.open(path, mode="r")
    assert [reader.read(1), reader.read(1)][1] == writer.read(1)
    reader.close()
    with pytest.raises(seglog.LogClosed):
        reader.read(1)


def test_a_damaged_record_is_an_error_and_its_neighbors_are_read(path: Path, writer: seglog.Log) -> None:
    with seglog.open(path, mode="r") as reader:
        for offset in range(40):
            reader.read(offset)
        flip(min(path.glob("*.store")), 70)
        with pytest.raises(seglog.CorruptRecord):
            reader.read(0)
        assert reader.read(1) == writer.read(1)


@pytest.mark.parametrize("wrong", ["5", 1.0, None, True])
def test_offsets_of_other_kinds_are_refused_as_by_the_writer(path: Path, writer: seglog.Log, wrong: Any) -> None:
    with seglog.open(path, mode="r") as reader:
        assert outcome(reader.read, wrong) == outcome(writer.read, wrong)
        assert reader.read(np.int64(1)) == writer.read(1)


def test_a_manifest_that_no_kernel_can_compare_is_left_to_the_storage(tmp_path: Path) -> None:
    (tmp_path / "MANIFEST").write_bytes(b"first")
    storage = LocalStorage(tmp_path)
    watch = ManifestWatch(storage)
    identity = storage.identity("MANIFEST")
    assert watch.seen(identity) is not None
    assert watch.seen(None) is None
    assert watch.seen((2**63, 1, 1)) is None
    assert watch.is_same(identity)
    assert not watch.is_same((2**63, 1, 1))
    assert ManifestWatch(seglog.MemoryStorage()).seen((1, 1, 1)) is None
