"""Every reader beside every change, which happens at any system call that the reader makes. See tests/snapshots.py.

`python -m pytest -m proof tests/test_snapshots.py tests/log/test_snapshots.py tests/archive/test_snapshots.py` tries
all of it, the gate a part.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aiokafka.record import MemoryRecords

import seglog
import seglog.aio
from seglog import Archiver, Broker, Mirror
from seglog.cli import main
from seglog.kafka import codes
from seglog.kafka.requests.partition_reads import Wanted, read_all
from seglog.log import leases
from seglog.table import sync
from seglog.topic.fetch import fetch_batches, fetch_records
from tests.beside import (
    FULL,
    PROOF,
    BesideCommand,
    BesideProcess,
    Trials,
    another_process,
    first_in_gate,
    newest,
    newest_of,
    prove,
    rows,
    rows_of,
)
from tests.snapshots import CHANGES, CONFIG, KEYS, State, fill, filled, state, update
from tests.table.conftest import stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.beside import History
    from tests.proofs import Tell

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


class Going:
    """A reader that keeps its position, and what it has got, from one call to the next. read: of a log, some records
    from a position on, and where it is then.
    """

    def __init__(self, read: Callable[[seglog.Log, int], tuple[State, int]]) -> None:
        self._read = read
        self._reached: dict[Path, tuple[State, int]] = {}

    def __call__(self, path: Path, scratch: Path) -> State:
        got, position = self._reached.get(scratch, ([], 0))
        with seglog.open(path, mode="r") as log:
            while position < log.next_offset:
                found, position = self._read(log, position)
                got += found
                self._reached[scratch] = got, position
        return got


def polled(log: seglog.Log, position: int) -> tuple[State, int]:
    tail = log.tail(position)
    found: State = []
    while len(found) < KEYS and (records := tail.poll(3)):
        found += rows_of(records)
    return found, tail.position


def followed(log: seglog.Log, position: int) -> tuple[State, int]:
    found = rows_of(islice(log.follow(position, timeout=0), KEYS))
    return found, found[-1][0] + 1 if found else log.next_offset


def fetched(log: seglog.Log, position: int) -> tuple[State, int]:
    found = fetch_records(log, position, max_records=7, max_bytes=4000)
    return rows_of(found.records), found.next_offset


def fetched_in_batches(log: seglog.Log, position: int) -> tuple[State, int]:
    found = fetch_batches(log, position, max_records=7, max_bytes=4000)
    return [pair for batch in found.batches for pair in rows(batch)], found.next_offset


def fetched_by_kafka(log: seglog.Log, position: int) -> tuple[State, int]:
    [found] = read_all([Wanted("orders", 0, log, position, 4000, codes.NONE, -1)], 4000)
    assert found.values.get("error_code", codes.NONE) == codes.NONE
    batches = [MemoryRecords(bytes(data)).next_batch() for data in found.values["records"]]
    return [(one.offset, one.key) for batch in batches for one in batch], found.next_offset


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
GOING = {
    "Kafka fetch": fetched_by_kafka,
    "tail": polled,
    "follow": followed,
    "fetch": fetched,
    "fetch of batches": fetched_in_batches,
}


def until_quiet(step: Callable[[], int]) -> None:
    while step():
        pass


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


def has_passed_all(history: History, found: State) -> bool:
    """Whether each position was passed once, and of every key its newest record was got."""
    return found == sorted(set(found)) and set(newest_of(history.states()[-1])) <= set(found)


KEEPING = [one for one in CHANGES if one not in ("cut", "expired", "deleted before")]
"""The changes after which a reader without an end goes on; the others it is told."""


@FULL
@pytest.mark.parametrize("change", KEEPING)
@pytest.mark.parametrize("reader", WITHOUT_END)
def test_a_reader_without_an_end_gets_each_position_once_and_of_every_key_its_newest_record(
    reader: str, change: str, tmp_path: Path, full: bool, tell: Tell
) -> None:
    trials = Trials(tmp_path, WITHOUT_END[reader], CHANGES[change], goes_on=True)
    counts = prove(trials, has_passed_all, full=full)
    assert not counts["expired"]
    tell(PROOF, reader=reader, change=change, **counts)


@FULL
@pytest.mark.parametrize("leased", [False, pytest.param(True, marks=pytest.mark.proof)], ids=["not leased", "leased"])
@pytest.mark.parametrize("change", first_in_gate(sorted(KEEPING, key="superseded and compacted".__ne__)))
@pytest.mark.parametrize("reader", first_in_gate(GOING))
def test_who_goes_on_from_a_position_gets_each_one_once_and_of_every_key_its_newest_record(
    reader: str, change: str, leased: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool, tell: Tell
) -> None:
    if not leased:
        monkeypatch.setattr(leases, "_take", lambda *_: None)
    counts = prove(Trials(tmp_path, Going(GOING[reader]), CHANGES[change], goes_on=True), has_passed_all, full=full)
    assert not counts["expired"]
    tell(PROOF, reader=reader, change=change, lease="leased" if leased else "not leased", **counts)


class OfGroup(Trials):
    """Polls of a group that commits, in the process that writes."""

    def __init__(self, root: Path, change: Callable[[Any], object]) -> None:
        super().__init__(root, self._polled, change, goes_on=True)
        self._got: dict[Path, State] = {}

    @contextmanager
    def _made(self, place: Path) -> Iterator[seglog.Log]:
        with Broker(place / "log") as self._broker:
            log = self._broker.create_topic("orders", partitions=1, config=CONFIG).partition(0)
            fill(log)
            yield log

    def _polled(self, _: Path, scratch: Path) -> State:
        got = self._got.setdefault(scratch, [])
        with self._broker.consumer("readers", ["orders"]) as consumer:
            while records := consumer.poll(max_records=7):
                got += rows_of(records)
                consumer.commit()
        return got


@FULL
@pytest.mark.parametrize("change", first_in_gate(sorted(KEEPING, key="superseded and compacted".__ne__)))
def test_a_group_gets_each_position_once_and_of_every_key_its_newest_record(
    change: str, tmp_path: Path, full: bool, tell: Tell
) -> None:
    counts = prove(OfGroup(tmp_path, CHANGES[change]), has_passed_all, full=full)
    assert not counts["expired"]
    tell(PROOF, reader="group", change=change, **counts)


@pytest.fixture(scope="module")
def writer() -> Iterator[Any]:
    with another_process() as pipe:
        yield pipe


LEASED = pytest.mark.parametrize(
    "leased", [True, pytest.param(False, marks=pytest.mark.proof)], ids=["leased", "not leased"]
)
ELSEWHERE = ["superseded and compacted", "expired", "cut"]
"""The changes by another process that the gate tries."""
BY_ANOTHER = [one if one in ELSEWHERE else pytest.param(one, marks=pytest.mark.proof) for one in CHANGES]


@pytest.fixture
def lease(leased: bool, monkeypatch: pytest.MonkeyPatch) -> str:
    if leased:
        return "leased"
    monkeypatch.setattr(leases, "_take", lambda *_: None)
    return "not leased"


@FULL
@LEASED
@pytest.mark.parametrize("change", BY_ANOTHER)
@pytest.mark.parametrize("reader", first_in_gate(sorted(WITH_END, key="to_arrow".__ne__)))
def test_a_read_beside_a_change_by_another_process_returns_the_log_as_it_was_at_one_moment(
    reader: str, change: str, lease: str, tmp_path: Path, writer: Any, full: bool, tell: Tell
) -> None:
    trials = BesideProcess(tmp_path, WITH_END[reader], change, writer)
    counts = prove(trials, lambda log, found: found in log.states(), full=full)
    tell(PROOF, reader=f"{reader}, another process", change=change, lease=lease, **counts)


@FULL
@LEASED
@pytest.mark.parametrize("change", BY_ANOTHER)
@pytest.mark.parametrize("reader", first_in_gate(BY_KEY))
def test_a_lookup_beside_a_change_by_another_process_returns_the_newest_records_of_one_moment(
    reader: str, change: str, lease: str, tmp_path: Path, writer: Any, full: bool, tell: Tell
) -> None:
    trials = BesideProcess(tmp_path, BY_KEY[reader], change, writer)
    counts = prove(trials, lambda log, found: found in log.lookups(), full=full)
    tell(PROOF, reader=f"{reader}, another process", change=change, lease=lease, **counts)


@FULL
@LEASED
@pytest.mark.parametrize("change", first_in_gate(sorted(KEEPING, key="superseded and compacted".__ne__)))
@pytest.mark.parametrize("reader", GOING)
def test_who_goes_on_beside_a_change_by_another_process_gets_of_every_key_its_newest_record(
    reader: str, change: str, lease: str, tmp_path: Path, writer: Any, full: bool, tell: Tell
) -> None:
    trials = BesideProcess(tmp_path, Going(GOING[reader]), change, writer, goes_on=True)
    counts = prove(trials, has_passed_all, full=full)
    assert not counts["expired"]
    tell(PROOF, reader=f"{reader}, another process", change=change, lease=lease, **counts)


def polled_to_the_end(path: Path, _: Path) -> State:
    with seglog.open(path, mode="r") as log:
        tail, found = log.tail(0), []
        while records := tail.poll(7):  # the last one looks at the log, which may be shorter now
            found += rows_of(records)
        return found


def followed_to_the_end(path: Path, _: Path) -> State:
    with seglog.open(path, mode="r") as log:
        return rows_of(log.follow(0, timeout=0))


TO_THE_END = {"tail": polled_to_the_end, "follow": followed_to_the_end}
LOSING = [one for one in CHANGES if one not in KEEPING]
TOLD = (seglog.LogTruncated, seglog.OffsetOutOfRange)


def passed_one_history(history: History, found: State) -> bool:
    """Whether offsets rise, and the newest record of every key that the log now holds was got."""
    offsets = [offset for offset, _ in found]
    return offsets == sorted(set(offsets)) and set(newest_of(history.states()[-1])) <= set(found)


@FULL
@LEASED
@pytest.mark.parametrize("change", LOSING)
@pytest.mark.parametrize("reader", TO_THE_END)
def test_who_follows_a_log_from_which_another_process_takes_records_never_joins_two_histories(
    reader: str, change: str, lease: str, tmp_path: Path, writer: Any, full: bool, tell: Tell
) -> None:
    trials = BesideProcess(tmp_path, TO_THE_END[reader], change, writer, told=TOLD)
    counts = prove(trials, lambda log, found: found in log.states(), full=full)
    tell(PROOF, reader=f"{reader}, another process", change=change, lease=lease, **counts)


@FULL
@pytest.mark.parametrize("change", BY_ANOTHER)
def test_the_command_tail_beside_a_change_prints_of_every_key_its_newest_record(
    change: str, tmp_path: Path, full: bool, tell: Tell
) -> None:
    words = ["tail", "{log}", "-f", "-n", "1000", "--format", r"%o %k\n"]
    counts = prove(BesideCommand(tmp_path, words, CHANGES[change]), passed_one_history, full=full)
    tell(PROOF, reader="seglog tail, a process", change=change, **counts)
