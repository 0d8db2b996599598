"""kill -9 of archiving writers, and the loss of their disk: no record that was acknowledged as archived is missing."""

from __future__ import annotations

import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import seglog
from seglog import Archiver
from tests.archive.conftest import BUCKET
from tests.waiting import until

if TYPE_CHECKING:
    from tests.proofs import Tell

PROGRAM = Path(__file__).parent / "programs" / "archived_writer.py"
ROUNDS = 14


class Ledger:
    """What writers printed: offset -> value of each record acknowledged as archived."""

    def __init__(self) -> None:
        self.values: dict[int, bytes] = {}
        self.acknowledged = 0

    def run(self, directory: Path, url: str, seed: int, seconds: float, *, acknowledges: bool = False) -> str:
        """Run a writer, kill it after some seconds of work; return its first line.

        acknowledges: the seconds begin with the first records that it acknowledges.
        """
        command = [sys.executable, str(PROGRAM), str(directory), url, str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            lines = [process.stdout.readline()] if acknowledges else []
            time.sleep(seconds if first.startswith("began") else 0)  # lets it work: this is the test's input, no wait
            process.kill()
            lines += process.stdout.read().splitlines(keepends=True)
        self.note([line for line in lines if line.endswith("\n")], seed)
        return first

    def note(self, lines: list[str], seed: int) -> None:
        """Note what a writer printed in whole lines."""
        for line in lines:
            if line[:1].isdigit():
                for offset in map(int, line.split()):
                    self.values[offset] = b"%d of %d" % (offset, seed)
                    self.acknowledged += 1

    def check(self, place: str | Path) -> None:
        """Check that every acknowledged record is there; one may have been truncated only after that by its writer."""
        with seglog.open(str(place), mode="r") as log:
            found = {record.offset: record.value for record in log.scan()}
            wrong = {offset: found.get(offset) for offset, value in self.values.items() if found.get(offset) != value}
            assert not wrong
            assert log.verify().ok


@pytest.fixture(params=["file", "s3", "versitygw"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    name = secrets.token_hex(6)
    if request.param == "file":
        return f"file://{tmp_path}/archive"
    request.getfixturevalue(request.param)
    return f"s3://{BUCKET}/{name}"


@pytest.mark.proof
@pytest.mark.xdist_group("s3")
def test_no_archived_record_is_lost_when_writers_are_killed_and_their_disk_is_lost(
    bucket: str, tmp_path: Path, tell: Tell
) -> None:
    ledger, choose, directory = Ledger(), random.Random(1), tmp_path / "disk-0"
    lost, refused = 0, 0
    for number in range(ROUNDS):
        first = ledger.run(directory, bucket, number, choose.uniform(0.05, 0.6))
        assert first == "began\n", first
        ledger.check(bucket)
        if number % 4 == 3:  # the disk is lost, and comes back after another one has taken over
            old, directory = directory, tmp_path / f"disk-{number}"
            seglog.restore(bucket, directory)
            ledger.check(directory)
            with Archiver(directory, bucket, grace=0) as archiver:
                archiver.step()
            assert ledger.run(old, bucket, 1000 + number, 0).startswith("refused ArchiveMismatch")
            lost, refused = lost + 1, refused + 1
    shutil.rmtree(directory)
    seglog.restore(bucket, tmp_path / "last")
    ledger.check(tmp_path / "last")
    assert ledger.acknowledged
    tell(
        "archive", kills=ROUNDS, disks_lost=lost, archived_records=ledger.acknowledged, records_lost=0, refused=refused
    )


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(4))
def test_a_paused_writer_that_wakes_up_after_a_take_over_acknowledges_nothing(
    seed: int, tmp_path: Path, tell: Tell
) -> None:
    url, old, new = f"file://{tmp_path}/archive", Ledger(), Ledger()
    command = [sys.executable, str(PROGRAM), str(tmp_path / "old"), url, "7"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "began\n"
        archived = process.stdout.readline()  # before that there is nothing to take over
        time.sleep(random.Random(seed).uniform(0.05, 0.3))  # lets it work: this is the test's input, no wait
        try:
            process.send_signal(signal.SIGSTOP)
            until(lambda: _is_stopped(process.pid))  # a thread in a system call goes on for a moment
            seglog.restore(url, tmp_path / "new")
            assert new.run(tmp_path / "new", url, 8, 0.3, acknowledges=True) == "began\n"
            process.send_signal(signal.SIGCONT)
            *lines, last = [archived, *process.stdout.read().splitlines()]
        finally:
            process.kill()
    assert last == "refused ArchiveFenced"
    old.note(lines, 7)
    assert new.acknowledged
    old.check(url)
    new.check(url)
    tell("archive", take_overs=1, records_acknowledged_twice=len(old.values.keys() & new.values.keys()))


def _is_stopped(pid: int) -> bool:
    """Whether all threads of a process are stopped."""
    states = [stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}
