"""What a forked child may do with the logs it inherits: read, and close, without harm to its parent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# Every text runs in an interpreter of its own: a fork of the tests' process would take their threads along.
START = """
import os, signal, sys, threading, time, seglog
path, mode = sys.argv[1:]
def in_a_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        try:
            work()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""

READING = """
writer = seglog.open(path, seglog.LogConfig(segment_bytes=512, open_segments_max=1))
for _ in range(100):
    writer.append(b"v" * 200)
log = writer if mode == "a" else seglog.open(path, mode="r")
log.next_offset
from seglog.testing.internals import segments_of, state_of
view = segments_of(log).present if mode == "a" else log._present
views = segments_of(log).catalog.views if mode == "a" else log._views
guards = [views._guard, state_of(log).mutex if mode == "a" else log._mutex]
def hold():
    for guard in guards:
        guard.acquire()
    held.set()
    time.sleep(60)
held = threading.Event()
threading.Thread(target=hold, daemon=True).start()
held.wait()
print(in_a_child(lambda: print(sum(1 for _ in log.scan()), flush=True)), flush=True)
os._exit(0)
"""

LEASES = """
retention = seglog.Retention(bytes=8192)
writer = seglog.open(path, seglog.LogConfig(segment_bytes=4096, retention=retention))
def fill(records=200):
    for _ in range(records):
        writer.append(b"v" * 100)
leases = lambda: sorted(os.listdir(path + "/readers"))
fill()
reader = seglog.open(path, mode="r")
expected = len(list(reader.scan()))
scan = reader.scan()
next(scan)
before = leases()
print(in_a_child(reader.close), leases() == before)
fill()
print(1 + sum(1 for _ in scan) == expected)

def follow():
    inherited = leases()
    os.write(ask, b"x")
    os.read(answered, 1)
    assert reader.next_offset == 800, reader.next_offset
    assert len(leases()) == len(inherited) + 1, leases()
    reader.close()
    assert leases() == inherited, leases()
asked, ask = os.pipe()
answered, answer = os.pipe()
def serve():
    os.read(asked, 1)
    fill(400)
    os.write(answer, b"x")
threading.Thread(target=serve, daemon=True).start()
print(in_a_child(follow))
"""

WITHIN_A_BATCH = """
import pyarrow
from seglog.segment.stats import Tally
from seglog.storage.local_file import LocalFile
pwritev, hashed, children = LocalFile.pwritev, Tally.digest_with, []
begun, forked = threading.Event(), threading.Event()
def hash_across_the_fork(*arguments):
    begun.set()
    forked.wait()
    return hashed(*arguments)
def fork_within(file, parts, position):
    if not children:
        begun.wait()
        children.append(os.fork())
        signal.alarm(0 if children[0] else 20)
        forked.set()
    pwritev(file, parts, position)
writer = seglog.open(path)
LocalFile.pwritev, Tally.digest_with = fork_within, hash_across_the_fork
writer.append_batch(pyarrow.table({"value": pyarrow.nulls(2_000_000)}))
if not children[0]:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
writer.close()
print(seglog.verify(path).ok)
"""

WITHIN_A_SUSPENSION = """
from seglog.storage.local_file import LocalFile
from seglog.testing.internals import files_of
suspend, children = LocalFile.suspend, []
def fork_before(file, reopened):
    if not children:
        children.append(os.fork())
    suspend(file, reopened)
writer = seglog.open(path)
writer.append(b"before")
LocalFile.suspend = fork_before
files_of(writer).suspend()
if not children[0]:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
print(writer.append(b"after"), writer.read(0).value)
"""


@pytest.mark.parametrize("mode", ["a", "r"])
def test_a_child_reads_though_another_thread_held_the_locks_at_the_fork(path: Path, script: Any, mode: str) -> None:
    assert script(START + READING, path, mode) == "100\n0\n"


def test_a_child_that_closes_a_reader_leaves_the_lease_to_its_parent_and_takes_its_own(path: Path, script: Any) -> None:
    assert script(START + LEASES, path, "r") == "0 True\nTrue\n0\n"


def test_a_child_forked_in_the_middle_of_a_batch_waits_for_no_thread_of_its_parent(path: Path, script: Any) -> None:
    assert script(START + WITHIN_A_BATCH, path, "a") == "7\nTrue\n"


def test_a_child_forked_while_its_parent_closes_idle_files_returns_from_that_call(path: Path, script: Any) -> None:
    assert script(START + WITHIN_A_SUSPENSION, path, "a") == "7\n1 b'before'\n"


WITHIN_A_STREAM = """
import os, sys
import pyarrow
import seglog
from seglog.arrow import stream
stream.PIECE_BYTES = 1000
writer, children, rows = seglog.open(sys.argv[1], seglog.LogConfig(segment_bytes=100_000)), [], 0
batch = pyarrow.record_batch([[b"v" * 100] * 10], names=["value"])
def stream():
    for number in range(300):
        if number == 200:
            children.append(os.fork())
        yield batch
try:
    rows = len(writer.append_batch(pyarrow.RecordBatchReader.from_batches(batch.schema, stream())))
except seglog.LogReadOnly as error:
    os._exit(7 if "inherited through fork" in str(error) else 1)
if not children[0]:
    os._exit(2)
print(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]), rows)
writer.close()
print(seglog.verify(sys.argv[1]).ok)
"""


def test_a_child_forked_by_the_stream_of_a_batch_stops_and_its_parent_goes_on(path: Path, script: Any) -> None:
    assert script(WITHIN_A_STREAM, path) == "7 3000\nTrue\n"
