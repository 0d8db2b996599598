"""A log and topics on a file system that is mounted read-only: everything reads, and nothing else is promised."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import seglog
from tests import tools

if TYPE_CHECKING:
    from pathlib import Path

READ_ONLY = 'mount --make-rprivate / && mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
PROGRAM = """
import errno, sys, seglog
from seglog.cli import main
root = sys.argv[1]

def refused(call):
    try:
        call()
    except seglog.StorageError as error:
        assert error.errno == errno.EROFS, error
        assert root in str(error), error
        return
    raise AssertionError("it was not refused")

def run(*words):
    try:
        return main([*words]) or 0
    except SystemExit as end:
        return end.code

with seglog.open(f"{root}/log", mode="r") as log:
    assert [record.value for record in log.scan()] == [b"v %d" % number for number in range(20)]
    assert log.to_arrow().num_rows == 20
    assert log.offset_at(0) == 0
    assert log.verify().ok
    log.backup(sys.argv[2])
with seglog.Broker(f"{root}/topics", mode="r") as broker:
    assert broker.groups.committed("billing") == {"orders": {0: 1}}
    with broker.consumer("billing", ["orders"], share=(0, 1)) as consumer:
        assert [record.value for record in consumer.poll(timeout=0)] == [b"v 1"]
for place in ("log", "torn", "new"):
    refused(lambda: seglog.open(f"{root}/{place}"))
refused(lambda: seglog.Broker(f"{root}/topics"))
refused(lambda: seglog.Broker(f"{root}/new"))
assert [record.value for record in seglog.open(f"{root}/torn", mode="r").scan()] == [b"whole"]
for words in (["read"], ["info"], ["verify"]):
    assert run(*words, f"{root}/log") == 0, words
assert run("topics", f"{root}/topics") == 0
for words in (["append", f"{root}/log"], ["truncate", f"{root}/log", "5", "--yes"], ["serve", f"{root}/topics"]):
    assert run(*words) == 6, words
"""


@pytest.mark.needs("unshare")
def test_on_a_read_only_file_system_everything_reads_and_what_writes_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    in_it = ["unshare", "-m", "sh", "-c", READ_ONLY, str(data)]
    tried = subprocess.run([*in_it, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        tools.forbidden("unshare", f"no read-only file system can be made here: {tried.stderr}")
    with seglog.open(data / "log", seglog.LogConfig(segment_bytes=512)) as log:
        for number in range(20):
            log.append(b"v %d" % number)
    with seglog.open(data / "torn") as log:
        log.append(b"whole")
    with next((data / "torn").glob("*.store")).open("ab") as store:
        store.write(b"torn")
    with seglog.Broker(data / "topics") as broker:
        topic = broker.create_topic("orders")
        for number in range(2):
            topic.append(b"v %d" % number)
        broker.groups.commit("billing", {"orders": {0: 1}})
    command = [*in_it, sys.executable, "-c", PROGRAM, str(data), str(tmp_path / "backup")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, input="v\n")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Read-only file system") == 3
    with seglog.open(tmp_path / "backup", mode="r") as copy:
        assert copy.next_offset == 20
