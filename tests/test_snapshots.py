"""Every reader beside every change, which happens at any system call that the reader makes. See tests/snapshots.py.

`python -m pytest -m proof tests/test_snapshots.py tests/log/test_snapshots.py` tries all of it, the gate a part.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import seglog
import seglog.aio
from seglog import Archiver, Mirror, Retention
from seglog.cli import main
from seglog.table import sync
from seglog.testing.system import FaultySystem
from tests.snapshots import CHANGES, KEYS, RECORDS, State, filled, state, update
from tests.table.conftest import stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from tests.proofs import Tell

PROOF = "reads beside changes"
FEW = 2
"""How many moments the gate tries for each reader and change."""
APART = 3
"""The proof tries every third system call."""


class Beside(FaultySystem):
    """Makes a change at one of the system calls for files below a directory."""

    def __init__(self, root: Path, at: int, change: Callable[[], object]) -> None:
        super().__init__(root)
        self.made = 0
        self._at, self._change, self._changes = at, change, False

    def _meet(self, operation: str, path: str) -> float:
        if self._changes:
            return 1.0
        self.made += 1
        if self.made == self._at:
            self._changes = True
            self._change()
            self._changes = False
        return 1.0


class Setting(NamedTuple):
    """Below which directory the calls of a reader count, and what is done at one of them."""

    where: Path
    change: Callable[[], object]


class History:
    """A log that a change is made to: what it held before, and after each call of the change."""

    def __init__(self, log: seglog.Log) -> None:
        self._log = log
        self.moments = [list(log.scan())]

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._log, name)
        return self._noted(found) if callable(found) else found

    def _noted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **options: Any) -> Any:
            result = call(*arguments, **options)
            if not self._log.closed:
                self.moments.append(list(self._log.scan()))
            return result

        return noted

    def states(self) -> list[State]:
        """Return what the log held at each of these moments."""
        return [[(record.offset, record.key) for record in held] for held in self.moments]

    def lookups(self) -> list[State]:
        """Return the newest record of each of the keys, where it has a value, at each of these moments."""
        latest = [{record.key: record for record in held if record.key != b"last"} for held in self.moments]
        return [newest(one for one in held.values() if one.value is not None) for held in latest]


# --- readers with an end: (directory of the log, scratch) -> what they return ---------------------------------------


def scanned(path: Path, _: Path) -> State:
    with seglog.open(path, mode="r") as log:
        return state(log)


def in_batches(path: Path, _: Path) -> State:
    return [pair for batch in seglog.open(path, mode="r").batches(max_records=3) for pair in rows(batch)]


def as_table(path: Path, _: Path) -> State:
    with seglog.open(path, mode="r") as log:
        return rows(log.to_arrow())


def as_stream(path: Path, _: Path) -> State:
    with seglog.open(path, mode="r") as log:
        return rows(pa.RecordBatchReader.from_stream(log).read_all())


def awaited(path: Path, _: Path) -> State:
    async def read() -> State:
        async with await seglog.aio.open(path, mode="r") as log:
            return [(record.offset, record.key) async for record in log.scan()]

    return asyncio.run(read())


def exported(path: Path, scratch: Path) -> State:
    with redirect_stderr(StringIO()) as said:
        code = main(["export", str(path), str(scratch / "exported.parquet"), "--format", "parquet"])
    if code:
        assert re.search("begin the read again|open it again", said.getvalue())
        raise seglog.SnapshotExpired(0, 1)
    return rows(pq.read_table(scratch / "exported.parquet"))


def backed_up(path: Path, scratch: Path) -> State:
    with seglog.open(path, mode="r") as log:
        log.backup(scratch / "copy")
    return scanned(scratch / "copy", scratch)


WITH_END = {
    "scan": scanned,
    "batches": in_batches,
    "to_arrow": as_table,
    "Arrow stream": as_stream,
    "awaited scan": awaited,
    "seglog export": exported,
    "backup": backed_up,
}

# --- readers of the newest record of each key -------------------------------------------------------------------------


def by_keys(path: Path, _: Path) -> State:
    with seglog.open(path, mode="r") as log:
        return newest(log.read_keys([b"k%d" % number for number in range(KEYS)]).values())


def by_index(path: Path, _: Path) -> State:
    with seglog.open(path, mode="r") as log:
        return newest(seglog.KeyIndex(log).read_keys([b"k%d" % number for number in range(KEYS)]).values())


BY_KEY = {"read_keys": by_keys, "KeyIndex": by_index}

# --- readers without an end, until they have all: the next call goes on ---------------------------------------------


def mirrored(path: Path, scratch: Path) -> State:
    with Mirror(path, scratch / "mirrored") as mirror:
        until_quiet(mirror.step)
    return scanned(scratch / "mirrored", scratch)


def archived(path: Path, scratch: Path) -> State:
    bucket = (scratch / "bucket").as_uri()
    with Archiver(path, bucket, grace=0) as archiver:
        archiver.step()
    back = Path(mkdtemp(dir=scratch)) / "log"
    seglog.restore(bucket, back)
    return scanned(back, scratch)


def as_iceberg(path: Path, scratch: Path) -> State:
    until_quiet(lambda: sync(path, scratch / "warehouse", active=True)[0].records)
    return sorted((row[1], row[3]) for row in stored(scratch / "warehouse", path.name))


WITHOUT_END = {"mirror": mirrored, "archive": archived, "table": as_iceberg}

# --- readers of an archive --------------------------------------------------------------------------------------------


def bucket_of(scratch: Path) -> str:
    return (scratch / "bucket").as_uri()


def scanned_there(_: Path, scratch: Path) -> State:
    with seglog.open(bucket_of(scratch), mode="r") as log:
        return state(log)


def as_table_there(_: Path, scratch: Path) -> State:
    with seglog.open(bucket_of(scratch), mode="r") as log:
        return rows(log.to_arrow())


def restored(_: Path, scratch: Path) -> State:
    seglog.restore(bucket_of(scratch), scratch / "restored")
    return scanned(scratch / "restored", scratch)


def by_keys_there(_: Path, scratch: Path) -> State:
    with seglog.open(bucket_of(scratch), mode="r") as log:
        return newest(log.read_keys([b"k%d" % number for number in range(KEYS)]).values())


def tiered(path: Path, scratch: Path) -> State:
    with seglog.open(path, mode="r", archive=bucket_of(scratch)) as log:
        return state(log)


def tiered_by_offset(path: Path, scratch: Path) -> State:
    with seglog.open(path, mode="r", archive=bucket_of(scratch)) as log:
        try:
            return rows_of(log.read_many(range(RECORDS), skip_compacted=True))
        except seglog.OffsetOutOfRange as error:  # told at once, as of any log that has deleted them
            raise seglog.SnapshotExpired(error.offset, RECORDS) from error


OF_ARCHIVE = {"scan": scanned_there, "to_arrow": as_table_there, "restore": restored}
OF_TIERS = {"scan": tiered, "read_many": tiered_by_offset}


@contextmanager
def archive_that_follows(place: Path, log: Any, change: Callable[[Any], object]) -> Iterator[Setting]:
    """Archive each change at once, without any time for readers of earlier states."""
    with Archiver(place / "log", bucket_of(place), keep=0, grace=0) as archiver:
        archiver.step()

        def change_and_archive() -> None:
            change(log)
            archiver.step()
            archiver.step()

        yield Setting(place / "bucket", change_and_archive)


@contextmanager
def archive_that_is_cleaned(place: Path, log: Any, _: object) -> Iterator[Setting]:
    """Delete from the archive what the log has deleted."""
    with Archiver(place / "log", bucket_of(place)) as archiver:
        archiver.step()
        log.alter_retention(Retention(bytes=1))
        log.expire()
        archiver.step()

    def clean() -> None:
        with Archiver(place / "log", bucket_of(place), keep=0, grace=0) as archiver:
            archiver.step()
            archiver.step()

    yield Setting(place / "bucket", clean)


def until_quiet(step: Callable[[], int]) -> None:
    while step():
        pass


def rows(table: Any) -> State:
    return list(zip(table["offset"].to_pylist(), table["key"].cast(pa.binary()).to_pylist(), strict=True))


def rows_of(records: Any) -> State:
    return [(record.offset, record.key) for record in records]


def newest(records: Any) -> State:
    return sorted((record.offset, record.key) for record in records if record is not None)


def newest_of(found: State) -> State:
    return sorted({key: (offset, key) for offset, key in found}.values())


# --- the matrix -------------------------------------------------------------------------------------------------------

FULL = pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.proof)], ids=["few", "all"])


def moments(calls: int, *, full: bool) -> list[int]:
    """Return at which calls of a read the change happens."""
    assert calls > FEW, "the read made no calls"
    return list(range(1, calls + 1, APART)) if full else [calls * (part + 1) // (FEW + 1) for part in range(FEW)]


@contextmanager
def log_alone(place: Path, log: Any, change: Callable[[Any], object]) -> Iterator[Setting]:
    yield Setting(place / "log", lambda: change(log))


def first_in_gate(names: Iterable[str]) -> list[Any]:
    """Return parameters of which only the first one is tried in the gate."""
    first, *others = names
    return [first, *(pytest.param(one, marks=pytest.mark.proof) for one in others)]


SOME = first_in_gate(sorted(CHANGES, key="superseded and compacted".__ne__))


class Trials:
    """Reads of one kind beside one change, each on a log of its own."""

    def __init__(
        self,
        root: Path,
        read: Callable[[Path, Path], State],
        change: Callable[[Any], object],
        *,
        setting: Callable[..., AbstractContextManager[Setting]] = log_alone,
        goes_on: bool = False,
    ) -> None:
        """goes_on: whether the read is repeated after the change, from where it was."""
        self._root, self._read, self._change, self._setting, self._goes_on = root, read, change, setting, goes_on
        self._numbers = itertools.count()

    def calls(self) -> int:
        """Return how many system calls a read makes that nothing disturbs."""
        return self.run(0)[2]

    def run(self, at: int) -> tuple[History, State | None, int]:
        """Return the log's history, what was read (None: it expired), and how many calls the read made."""
        place = self._root / str(next(self._numbers))
        place.mkdir()
        with filled(place / "log") as log:
            history = History(log)
            with self._setting(place, history, self._change) as (where, change), Beside(where, at, change) as system:
                found = self._outcome(place)
            if self._goes_on:
                history.sync()
                found = self._outcome(place)
        return history, found, system.made

    def _outcome(self, place: Path) -> State | None:
        try:
            return self._read(place / "log", place)
        except (seglog.SnapshotExpired, seglog.LogReplaced):
            return None
        except pa.ArrowInvalid as error:  # a stream of Arrow's C interface can only tell the text
            assert "SnapshotExpired" in str(error)
            return None


def prove(trials: Trials, is_right: Callable[[History, State], bool], *, full: bool) -> dict[str, int]:
    """Make the change at each moment of a read, which is right or expires; return the counts."""
    steps, expired = moments(trials.calls(), full=full), 0
    for at in steps:
        history, found, _ = trials.run(at)
        assert found is None or is_right(history, found), f"a change at call {at}"
        expired += found is None
    assert expired < len(steps) or not full, "every read has expired"
    return {"interleavings": len(steps), "expired": expired, "violations": 0}


@FULL
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("reader", WITH_END)
def test_a_read_returns_the_log_as_it_was_at_one_moment(
    reader: str, change: str, tmp_path: Path, full: bool, tell: Tell
) -> None:
    trials = Trials(tmp_path, WITH_END[reader], CHANGES[change])
    counts = prove(trials, lambda history, found: found in history.states(), full=full)
    tell(PROOF, reader=reader, change=change, **counts)


def replaced(log: seglog.Log) -> None:
    path = Path(log.path)
    log.remove()
    with filled(path) as new:
        update(new, 3)


@FULL
@pytest.mark.parametrize("reader", WITH_END)
def test_a_read_of_a_log_that_is_replaced_returns_one_of_both(
    reader: str, tmp_path: Path, full: bool, tell: Tell
) -> None:
    with filled(tmp_path / "another") as log:
        update(log, 3)
        new = state(log)
    trials = Trials(tmp_path, WITH_END[reader], replaced)
    counts = prove(trials, lambda history, found: found in (new, *history.states()), full=full)
    tell(PROOF, reader=reader, change="replaced", **counts)


@FULL
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("reader", BY_KEY)
def test_a_lookup_returns_the_newest_records_of_one_moment(
    reader: str, change: str, tmp_path: Path, full: bool, tell: Tell
) -> None:
    trials = Trials(tmp_path, BY_KEY[reader], CHANGES[change])
    counts = prove(trials, lambda history, found: found in history.lookups(), full=full)
    tell(PROOF, reader=reader, change=change, **counts)


@FULL
@pytest.mark.parametrize("change", [one for one in CHANGES if one not in ("cut", "expired", "deleted before")])
@pytest.mark.parametrize("reader", WITHOUT_END)
def test_a_reader_without_an_end_gets_each_position_once_and_of_every_key_its_newest_record(
    reader: str, change: str, tmp_path: Path, full: bool, tell: Tell
) -> None:
    def is_right(history: History, found: State) -> bool:
        return found == sorted(set(found)) and set(newest_of(history.states()[-1])) <= set(found)

    trials = Trials(tmp_path, WITHOUT_END[reader], CHANGES[change], goes_on=True)
    counts = prove(trials, is_right, full=full)
    assert not counts["expired"]
    tell(PROOF, reader=reader, change=change, **counts)


@FULL
@pytest.mark.parametrize("change", SOME)
@pytest.mark.parametrize("reader", first_in_gate(OF_ARCHIVE))
def test_a_read_of_an_archive_that_is_cleaned_returns_one_moment_or_expires(
    reader: str, change: str, tmp_path: Path, full: bool, tell: Tell
) -> None:
    trials = Trials(tmp_path, OF_ARCHIVE[reader], CHANGES[change], setting=archive_that_follows)
    counts = prove(trials, lambda history, found: found in history.states(), full=full)
    tell(PROOF, reader=f"archive: {reader}", change=change, **counts)


@pytest.mark.proof
@pytest.mark.parametrize("change", CHANGES)
def test_a_lookup_in_an_archive_that_is_cleaned_returns_one_moment_or_expires(
    change: str, tmp_path: Path, tell: Tell
) -> None:
    trials = Trials(tmp_path, by_keys_there, CHANGES[change], setting=archive_that_follows)
    counts = prove(trials, lambda history, found: found in history.lookups(), full=True)
    tell(PROOF, reader="archive: read_keys", change=change, **counts)


@FULL
@pytest.mark.parametrize("reader", first_in_gate(OF_TIERS))
def test_a_read_of_what_only_an_archive_has_is_whole_or_expires_when_that_is_cleaned(
    reader: str, tmp_path: Path, full: bool, tell: Tell
) -> None:
    trials = Trials(tmp_path, OF_TIERS[reader], _nothing, setting=archive_that_is_cleaned)
    counts = prove(trials, lambda history, found: found in history.states(), full=full)
    tell(PROOF, reader=f"tiers: {reader}", change="cleaned", **counts)


def _nothing(_: object) -> None:
    """Change nothing."""
