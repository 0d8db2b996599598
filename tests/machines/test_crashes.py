"""Snapshots survive power loss and errors at every call, kill -9, and other processes: no state is ever wrong."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog import LogConfig, MemoryStorage, Snapshots
from seglog.format.snapshot import UNFINISHED
from seglog.storage import Subdirectory
from seglog.testing.crash_states import moments
from seglog.testing.disk import Disk
from seglog.testing.disk_storage import DiskStorage
from seglog.testing.faulty import Crashed, Fault, FaultyStorage
from seglog.testing.power_loss import repeatable
from tests.machines.machines import Chain, Heard, chained, fill

if TYPE_CHECKING:
    from tests.proofs import Tell

PROGRAM = Path(__file__).parent / "programs" / "replayer.py"
pytestmark = pytest.mark.no_cover


def play(log: seglog.Log, states: Any, durable: list[int]) -> None:
    """Replay with snapshots, between appends and a truncate; note the offset of each one that is durable."""
    for number in range(4):
        fill(log, 10, f"round {number}")
        durable.append(seglog.replay(log, Heard(), snapshots=states).next_offset)
    log.truncate(35)
    fill(log, 5, "after the truncate")
    durable.append(seglog.replay(log, Heard(), snapshots=states).next_offset)


def goes_on(log: seglog.Log, states: Any) -> int | None:
    """Replay twice; check states and return where the first one began."""
    expected = [record.offset for record in log.scan()]
    first = seglog.replay(log, Heard(), snapshots=states)
    assert first.state == expected
    second = seglog.replay(log, Heard(), snapshots=states)
    assert (second.state, second.records) == (expected, 0)
    return first.partitions[0].resumed_at


@pytest.mark.parametrize(
    ("sample", "every"), [pytest.param(4, 3, id="few"), pytest.param(60, 1, marks=pytest.mark.proof, id="many")]
)
def test_a_replay_goes_on_after_power_loss_at_any_moment(sample: int, every: int, tell: Tell) -> None:
    disk, states = Disk(recording=True), 0
    with repeatable(), seglog.open(MemoryStorage()) as log:
        durable = [0]
        for number in range(6):
            fill(log, 10, f"round {number}")
            seglog.replay(log, Heard(), snapshots=DiskStorage(disk))
            durable.append(log.next_offset)
            disk.note(durable[-1])
        for number, moment in enumerate(moments(disk)):
            if number % every:
                continue
            for state in moment.states(sample, seed=number):
                begun = goes_on(log, DiskStorage(Disk(state.image))) or 0
                assert begun >= (moment.note or 0), "a snapshot that was durable is used"
                states += 1
    assert states > 20
    tell("crash states of snapshots", states=states, violations=0)


def lives(disk: Disk, durable: list[int]) -> None:
    """Append to a log, sync it at times, and replay it with snapshots on the same disk, through two openings."""
    root = DiskStorage(disk)
    for life in range(2):
        with seglog.open(Subdirectory(root, "log"), LogConfig(segment_bytes=600)) as log:
            for number in range(3):
                fill(log, 5, f"life {life} round {number}")
                if number == 1:
                    log.sync()
                    durable.append(log.next_offset)
                    disk.note(log.next_offset)
                seglog.replay(log, Chain(), snapshots=Subdirectory(root, "states"))
            log.truncate(log.next_offset - 3)
            fill(log, 2, "after the truncate")
            seglog.replay(log, Chain(), snapshots=Subdirectory(root, "states"))


@pytest.mark.parametrize(
    ("sample", "every"), [pytest.param(2, 9, id="few"), pytest.param(12, 1, marks=pytest.mark.proof, id="many")]
)
def test_no_snapshot_is_continued_with_other_records_after_power_loss_of_the_log(
    sample: int, every: int, tell: Tell
) -> None:
    """Snapshots may be durable while the records that they include are not."""
    disk, seen, refused = Disk(recording=True), set[int](), 0
    with repeatable():
        lives(disk, [])
    for number, moment in enumerate(moments(disk)):
        if number % every:
            continue
        for state in moment.states(sample, seed=number):
            if state.key in seen:
                continue
            seen.add(state.key)
            root = DiskStorage(Disk(state.image))
            with seglog.open(Subdirectory(root, "log")) as log:
                before = seglog.replay(log, Chain(), snapshots=Subdirectory(root, "states"))
                assert before.state == chained(log.scan())
                refused += bool(before.partitions[0].unusable)
                fill(log, 12, "after the power came back")  # more than were lost: all offsets exist again
                later = seglog.replay(log, Chain(), snapshots=Subdirectory(root, "states"))
                assert later.state == chained(log.scan())
    assert len(seen) > 10
    assert refused or sample < 12
    tell("crash states of logs with snapshots", states=len(seen), snapshots_not_used=refused, violations=0)


@pytest.mark.parametrize(
    ("sample", "every"), [pytest.param(2, 9, id="few"), pytest.param(12, 1, marks=pytest.mark.proof, id="many")]
)
def test_a_snapshot_is_noticed_also_if_the_log_has_grown_again_before_the_next_replay(
    sample: int, every: int, tell: Tell
) -> None:
    disk, seen = Disk(recording=True), set[int]()
    with repeatable():
        lives(disk, [])
    for number, moment in enumerate(moments(disk)):
        if number % every:
            continue
        for state in moment.states(sample, seed=number + 1):
            if state.key in seen:
                continue
            seen.add(state.key)
            root = DiskStorage(Disk(state.image))
            with seglog.open(Subdirectory(root, "log")) as log:
                fill(log, 12, "after the power came back")
                later = seglog.replay(log, Chain(), snapshots=Subdirectory(root, "states"))
                assert later.state == chained(log.scan())
    assert len(seen) > 10
    tell("crash states of logs that grew again", states=len(seen), violations=0)


def calls_of(operations: frozenset[str]) -> int:
    storage = FaultyStorage(MemoryStorage())
    with seglog.open(MemoryStorage()) as log:
        play(log, storage, [])
    return sum(call.operation in operations for call in storage.calls)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, None], ids=["EIO", "ENOSPC", "death"])
@pytest.mark.parametrize("reading", [False, True], ids=["writing", "reading"])
def test_a_replay_goes_on_after_any_call_that_fails(error: int | None, reading: bool) -> None:
    operations = frozenset({"pread", "open", "names", "identity", "size"}) if reading else Fault().operations
    total = calls_of(operations)
    assert total > 20
    for at in range(1, total + 1):
        inner, durable = MemoryStorage(), [0]
        with seglog.open(MemoryStorage()) as log:
            fault = Fault(operations=operations, at=at, error=error, keep=0.5)
            with suppress(seglog.StorageError, Crashed):
                play(log, FaultyStorage(inner, fault), durable)
            begun = goes_on(log, inner) or 0
            assert begun >= min(durable[-1], 30), "a snapshot that was durable is used"
            fill(log, 1)
            goes_on(log, inner)
        names = inner.names()
        assert not [name for name in names if name.endswith(UNFINISHED)], "what a dead process left is removed"
        assert len(names) <= 2


def test_a_snapshot_that_the_disk_cannot_read_costs_only_the_records_after_the_one_before() -> None:
    inner = MemoryStorage()
    with seglog.open(MemoryStorage()) as log:
        for _ in range(2):
            fill(log, 10)
            seglog.replay(log, Heard(), snapshots=inner)
        fault = Fault(operations=frozenset({"pread"}), name=f"{20:020d}", error=errno.EIO, forever=True)
        found = seglog.replay(log, Heard(), snapshots=FaultyStorage(inner, fault)).partitions[0]
        assert (found.resumed_at, found.state) == (10, list(range(20)))
        assert "cannot be read" in str(found.unusable)


def test_a_damaged_record_before_a_snapshot_is_not_needed(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", LogConfig(segment_bytes=2048)) as log:
        fill(log, 100)
        seglog.replay(log, Heard(), snapshots=tmp_path / "states")
        last = log.segments[-2].next_offset - 1
        seglog.replay(log, Heard(), stop=last + 1, snapshots=tmp_path / "before")
        fill(log, 10)
    store = sorted((tmp_path / "log").glob("*.store"))[-2]
    data = bytearray(store.read_bytes())
    data[-3] ^= 1
    store.write_bytes(data)
    with seglog.open(tmp_path / "log", mode="r") as log:
        with pytest.raises(seglog.CorruptRecord):
            log.read(last)
        for states in ("states", "before"):
            assert seglog.replay(log, Heard(), snapshots=tmp_path / states).state == list(range(110))


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), *map(str, arguments)], stdout=subprocess.PIPE, text=True, env=os.environ
    )


def killed(process: subprocess.Popen[str], count: int, seconds: float) -> list[str]:
    """Let a replayer print some lines and work on, kill it, and return its whole lines."""
    assert process.stdout is not None
    with process:
        lines = [process.stdout.readline() for _ in range(count)]
        time.sleep(seconds)  # lets it work: this is the test's input, no wait
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    return [line for line in lines if line.endswith("\n")]


def filled(log: seglog.Log, count: int) -> None:
    log.append_batch(pa.table({"value": [b"%d" % number for number in range(count)]}))


@pytest.mark.parametrize("rounds", [pytest.param(3, id="few"), pytest.param(20, marks=pytest.mark.proof, id="many")])
def test_replays_that_are_killed_while_they_store_snapshots_continue(rounds: int, tmp_path: Path, tell: Tell) -> None:
    choose, states, begun, torn = random.Random(rounds), tmp_path / "states", set[int | None](), 0
    with seglog.open(tmp_path / "log") as log:
        filled(log, 100_000)
        for _ in range(rounds):
            lines = killed(start(tmp_path / "log", states), choose.randint(2, 6), choose.uniform(0.0, 0.01))
            torn += any(path.name.endswith(UNFINISHED) for path in states.iterdir())
            newest = Snapshots(states).offsets()[-1]
            assert newest >= int(lines[-1].split()[1]), "what was reported is there"
            found = seglog.replay(log, Chain(), snapshots=states, stop=newest).partitions[0]
            assert not found.unusable
            assert (found.resumed_at, found.state) == (newest, seglog.replay(log, Chain(), stop=newest).state)
            begun.add(found.resumed_at)
        last = seglog.replay(log, Chain(), snapshots=states)
        assert last.state == chained(log.scan())
        assert not [path for path in states.iterdir() if path.name.endswith(UNFINISHED)]
    assert len(begun) > 1
    tell("replays that are killed", kills=rounds, unfinished_snapshots=torn, wrong_states=0)


def test_processes_that_share_a_directory_of_snapshots_do_not_disturb_each_other(tmp_path: Path) -> None:
    states = tmp_path / "states"
    with seglog.open(tmp_path / "log") as log:
        filled(log, 20_000)
        replayers = [start(tmp_path / "log", states) for _ in range(3)]
        ends = [replayer.communicate()[0].splitlines()[-1] for replayer in replayers]
        assert ends == [f"end {chained(log.scan())}"] * 3
        assert [replayer.returncode for replayer in replayers] == [0] * 3
        assert Snapshots(states).offsets()[-1] == 20_000
        assert len(list(states.iterdir())) == 2
        assert seglog.replay(log, Chain(), snapshots=states).partitions[0].resumed_at == 20_000


class Huge:
    """A machine with a state of 64 MiB."""

    def initial(self) -> bytearray:
        return bytearray(64 * 1024 * 1024)

    def apply(self, state: bytearray, record: Any) -> bytearray:
        state[record.offset * 4099 % len(state)] ^= 1 + record.offset % 255
        return state

    def encode(self, state: bytearray) -> bytes:
        return bytes(state)

    def decode(self, data: bytes) -> bytearray:
        return bytearray(data)


def test_a_huge_state_is_stored_and_read(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        fill(log, 1000)
        seglog.replay(log, Huge(), snapshots=tmp_path / "states")
        fill(log, 1000)
        found = seglog.replay(log, Huge(), snapshots=tmp_path / "states")
        assert found.partitions[0].resumed_at == 1000
        assert found.state == seglog.replay(log, Huge()).state


def test_a_replay_beside_a_writer_that_truncates_has_the_state_of_one_history(tmp_path: Path) -> None:
    """The writer cuts and appends while another thread replays by path, with snapshots."""
    stop, states = threading.Event(), tmp_path / "states"
    with seglog.open(tmp_path / "log", LogConfig(segment_bytes=4096)) as log:
        fill(log, 300)

        def change() -> None:
            choose, number = random.Random(3), 0
            while not stop.is_set():
                number += 1
                log.truncate(log.next_offset - choose.randrange(1, 40))
                fill(log, choose.randrange(1, 45), f"change {number}")

        thread = threading.Thread(target=change)
        thread.start()
        try:
            done = 0
            while done < 40:
                with suppress(seglog.LogTruncated, seglog.OffsetOutOfRange):
                    seglog.replay(tmp_path / "log", Chain(), snapshots=Snapshots(states, every=64, keep=3))
                    done += 1
        finally:
            stop.set()
            thread.join()
        assert seglog.replay(log, Chain(), snapshots=states).state == chained(log.scan())
        fill(log, 60)
        assert seglog.replay(log, Chain(), snapshots=states).state == chained(log.scan())
