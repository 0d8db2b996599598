"""A log on real files, what a disk or a crash can do to it, and what must be true of it ever after."""

from __future__ import annotations

import copy
import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

import seglog
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.format.manifest_changes import decode_file
from seglog.segment.sealed import rules_of
from seglog.segment.walk import StoreWalk
from seglog.storage import LocalStorage
from seglog.testing.faulty import Crashed, Fault, FaultyStorage


class Place(NamedTuple):
    """The position of a record in its store."""

    offset: int
    position: int
    length: int


class Scene:
    """One log directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # --- making -----------------------------------------------------------------------------------------------------

    def fill(self, values: list[bytes], config: seglog.LogConfig | None = None) -> None:
        """Append values and close: all of them durable, and known to be."""
        with seglog.open(self.path, config) as log:
            for value in values:
                log.append(value, timestamp=log.next_offset)

    def fill_and_crash(
        self, durable: list[bytes], unsynced: list[bytes], config: seglog.LogConfig | None = None
    ) -> None:
        """Append and sync some values, append more, and die."""
        with self.dying(config) as log:
            for value in durable:
                log.append(value, timestamp=log.next_offset)
            log.sync()
            for value in unsynced:
                log.append(value, timestamp=log.next_offset)

    def dying(self, config: seglog.LogConfig | None = None) -> _Dying:
        """Open for a `with` block at whose end the process dies."""
        return _Dying(self.path, config)

    # --- looking ----------------------------------------------------------------------------------------------------

    def manifest(self) -> Manifest:
        return decode_file((self.path / "MANIFEST").read_bytes(), "MANIFEST").manifest

    def entry(self, number: int = -1) -> SegmentEntry:
        return self.manifest().segments[number]

    def file(self, number: int = -1, kind: str = "store") -> Path:
        """A file of the segment that is the number-th in the manifest; -1 is the active one."""
        return self.path / self.entry(number).name(kind)

    def places(self, number: int = -1) -> list[Place]:
        entry = self.entry(number)
        store = LocalStorage(self.path).open(entry.name())
        walk = StoreWalk(store, rules_of(entry), position=64, end=store.size(), expected=entry.base_offset)
        return [Place(record.offset, walk.position - length, length) for record, _, length in walk]

    def values(self) -> list[bytes | None]:
        with seglog.open(self.path) as log:
            return [record.value for record in log.scan()]

    def snapshot(self) -> dict[str, bytes]:
        """Return every file of the log but LOCK, tmp/ and leases, which opening always touches."""
        files = {str(path.relative_to(self.path)): path for path in self.path.rglob("*") if path.is_file()}
        touched = ("LOCK", "tmp/", "readers/")
        return {name: path.read_bytes() for name, path in sorted(files.items()) if not name.startswith(touched)}

    def torn_files(self) -> list[Path]:
        return sorted(self.path.glob("*.torn"))

    # --- harming ----------------------------------------------------------------------------------------------------

    @staticmethod
    def flip(path: Path, position: int, bit: int = 0) -> None:
        data = bytearray(path.read_bytes())
        data[position] ^= 1 << bit
        path.write_bytes(data)

    @staticmethod
    def overwrite(path: Path, position: int, data: bytes) -> None:
        with path.open("r+b") as file:
            file.seek(position)
            file.write(data)

    @staticmethod
    def cut(path: Path, size: int) -> None:
        with path.open("r+b") as file:
            file.truncate(size)


class _Dying:
    def __init__(self, path: Path, config: seglog.LogConfig | None) -> None:
        self.storage = FaultyStorage(LocalStorage(path))
        self.config = config

    def __enter__(self) -> seglog.Log:
        return seglog.open(self.storage, self.config)

    def __exit__(self, *_: object) -> None:
        self.storage.crash()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "log")


# --- what may be in a log after an operation, whole or interrupted --------------------------------------------------

Content = tuple[int, tuple[bytes, ...]]
"""The lowest offset and the values from there on."""


class Ledger:
    """What a log's user knows: `content` after all that was acknowledged, `possible` after a call that did not return.

    The last one of `possible` is what the log has once the call returns. The last methods call the log and note it.
    """

    def __init__(self) -> None:
        self.content: Content = (0, ())
        self.possible: list[Content] = [self.content]

    @property
    def next_offset(self) -> int:
        return self.content[0] + len(self.content[1])

    def appending(self, *values: bytes, pieces: bool = False) -> None:
        """A call that adds all values or none; with `pieces` any first part of them (a batch larger than a segment)."""
        start, known = self.content
        lengths = range(len(values) + 1) if pieces else (0, len(values))
        self.possible = [(start, known + values[:length]) for length in lengths]

    def truncating(self, offset: int) -> None:
        start, known = self.content
        self.possible = [self.content, (start, known[: offset - start])]

    def expiring(self, start: int) -> None:
        old, known = self.content
        self.possible = [self.content, (start, known[start - old :])]

    def done(self) -> None:
        """The call has returned: its last outcome is what the log must hold."""
        self.content = self.possible[-1]
        self.possible = [self.content]

    @staticmethod
    def value(offset: int) -> bytes:
        """The value at an offset, unless a test chooses another."""
        return b"value %04d " % offset * 4

    def append(self, log: seglog.Log, records: int = 1) -> None:
        for _ in range(records):
            value = self.value(self.next_offset)
            self.appending(value)
            log.append(value)
            self.done()

    def append_batch(self, log: seglog.Log, records: int, *, pieces: bool = False) -> None:
        values = tuple(self.value(self.next_offset + number) for number in range(records))
        self.appending(*values, pieces=pieces)
        log.append_batch(pa.table({"value": values}))
        self.done()

    def append_stream(self, log: seglog.Log) -> None:
        value = self.value(self.next_offset)
        self.appending(value)
        log.append_stream(value[start : start + 5] for start in range(0, len(value), 5))
        self.done()

    def truncate(self, log: seglog.Log, offset: int) -> None:
        self.truncating(offset)
        log.truncate(offset)
        self.done()


def content_of(log: seglog.Log) -> Content:
    records = list(log.scan())
    assert [record.offset for record in records] == list(range(log.lowest_offset, log.next_offset))
    values = [record.value for record in records]
    assert all(value is not None for value in values)
    assert [log.read(record.offset) for record in records] == records
    return log.lowest_offset, tuple(value for value in values if value is not None)


def check_survivor(path: Path, ledger: Ledger, *, torn_head: bool = False, lookups: bool = True) -> None:
    """The next open succeeds; nothing acknowledged is lost, nothing invented; and the log is sound and goes on.

    torn_head: half the head of a batch may stand before its whole records, which nobody can tell from damage.
    lookups: whether every lookup must be there.
    """
    with seglog.open(path) as log:
        content = content_of(log)
        assert content in ledger.possible
        assert torn_head or not log.recovery.damaged
        problems = [problem for problem in log.verify().problems if lookups or problem.kind != "index"]
        assert problems == []
        assert log.append(b"and on") == content[0] + len(content[1])
    with seglog.open(path) as log:
        assert log.recovery.clean, log.recovery.events
        assert content_of(log) == (content[0], (*content[1], b"and on"))
        live = {segment.name for segment in log.segments}
        assert {file.name for file in path.glob("*.store")} == live, "no store is left that nobody names"


Operation = Callable[[seglog.Log, Ledger], None]


class Run(NamedTuple):
    """What one run left: log is None where it ended while opening; error: what ended the operation, if anything."""

    path: Path
    ledger: Ledger
    storage: FaultyStorage
    log: seglog.Log | None
    error: BaseException | None


class Laboratory:
    """Runs an operation again and again on copies of a log, each time going wrong one call later."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.template = root / "template"
        self.known = Ledger()
        self._number = 0

    def prepare(self, operation: Operation, config: seglog.LogConfig | None = None, *, close: bool = True) -> None:
        """Make the log that every run begins with; without `close` its writer has died."""
        storage = FaultyStorage(LocalStorage(self.template))
        log = seglog.open(storage, config)
        operation(log, self.known)
        if close:
            log.close()
        storage.crash()

    def runs(self, operation: Operation, fault: Fault, *, opening: bool = False) -> Iterator[Run]:
        """Yield every run until one meets no fault any more; that one too. opening: count calls from the open on."""
        for at in itertools.count(1):
            path, ledger = self._copy(), copy.deepcopy(self.known)
            storage, plan = FaultyStorage(LocalStorage(path)), replace(fault, at=at)
            storage.fault = plan if opening else None
            log, error = None, None
            try:
                log = seglog.open(storage)
                storage.fault = plan if not opening else storage.fault
                operation(log, ledger)
            except (Crashed, seglog.SeglogError) as caught:
                error = caught
            struck = storage.struck
            if fault.error is None:
                storage.crash()  # it dies in the end, too
            yield Run(path, ledger, storage, log, error)
            storage.crash()
            shutil.rmtree(path, ignore_errors=True)
            if not struck:
                assert at > 1, "the operation makes no such call at all"
                return

    def _copy(self) -> Path:
        self._number += 1
        path = self.root / f"run{self._number}"
        if self.template.exists():
            shutil.copytree(self.template, path)
        return path


@pytest.fixture
def laboratory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Laboratory:
    """What dies here is a process, and the kernel keeps what it wrote: hundreds of real syncs would only take time."""
    monkeypatch.setattr("seglog.storage.local_file.sync_data", lambda _descriptor: None)
    monkeypatch.setattr(LocalStorage, "_sync", staticmethod(lambda _path: None))
    return Laboratory(tmp_path)


@pytest.fixture(name="check_survivor")
def the_check_of_a_survivor() -> Callable[[Path, Ledger], None]:
    return check_survivor


@pytest.fixture(name="content_of")
def the_content_of_a_log() -> Callable[[seglog.Log], Content]:
    return content_of
