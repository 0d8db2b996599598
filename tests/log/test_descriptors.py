"""Many logs in a process with few file descriptors: idle logs close their files, and a missing one stops no log."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import seglog
from seglog.storage.descriptors import Holders
from seglog.storage.local import LocalStorage
from seglog.storage.local_file import LocalFile
from seglog.testing.internals import files_of
from tests.waiting import HANG_SECONDS

FEW = """
import errno, json, os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 480))
import seglog
root = sys.argv[1]
"""

MANY_LOGS = """
broker = seglog.Broker(root)
topics = [broker.create_topic(f"t{number}", partitions=4) for number in range(60)]
for turn in range(3):
    for number, topic in enumerate(topics):
        for partition in range(4):
            topic.append(b"%d" % turn, partition=partition, timestamp=number)
broker.sync()
values = {value for topic in topics for p in range(4) for value in [tuple(r.value for r in topic.partition(p).scan())]}
used, failed = len(os.listdir("/proc/self/fd")), broker.poisoned
broker.close()
print(json.dumps([[v.decode() for v in value] for value in values]), used, failed)
"""

NONE_LEFT = """
log = seglog.open(root, seglog.LogConfig(segment_bytes=512))
filler, refused, kept = [], [], []
try:
    while True:
        filler.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
for number in range(100):
    try:
        kept.append(log.append(b"%060d" % number))
    except seglog.StorageError as error:
        refused.append(errno.errorcode[error.errno])
log.sync()
for descriptor in filler:
    os.close(descriptor)
kept.append(log.append(b"after"))
found = [record.offset for record in log.scan()]
print(json.dumps([kept == found, len(kept), len(refused), sorted(set(refused)), str(log.failure)]))
log.close()
"""


OTHERS_HOLD_ON = """
from seglog.storage import MemoryStorage
with seglog.open(root) as log:
    log.append(b"kept")
others = [seglog.open(MemoryStorage()) for _ in range(40)]
local = [seglog.open(f"{root}-{number}") for number in range(32)]
pid = os.fork()
if not pid:  # what it has inherited closes no files here
    with seglog.open(root) as log:
        assert log.read(0).value == b"kept"
        log.append(b"by the child")
    os._exit(0)
print(os.waitpid(pid, 0)[1])
with seglog.open(root) as log:
    print([record.value for record in log.scan()])
"""

GONE_ONES = """
resource.setrlimit(resource.RLIMIT_NOFILE, (480, 480))
closed = []
for number in range(100):
    closed.append(seglog.open(f"{root}/{number}"))
    closed[-1].close()
idle = [seglog.open(f"{root}/idle-{number}") for number in range(10)]
filler = []
try:
    while True:
        filler.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
from seglog.storage import LocalStorage
LocalStorage(root).create("new")
print("created")
"""


def run(script: str, root: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", FEW + script, str(root)],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


def test_a_broker_appends_to_more_partitions_than_the_process_has_descriptors(tmp_path: Path) -> None:
    values, used, failed = run(MANY_LOGS, tmp_path / "shop").rsplit(maxsplit=2)
    assert json.loads(values) == [["0", "1", "2"]]
    assert int(used) < 128
    assert failed == "{}"
    with seglog.Broker(tmp_path / "shop") as broker:
        assert {broker.topic(name).partition(3).next_offset for name in broker.topics()} == {3}


def test_a_process_without_a_free_descriptor_is_refused_and_loses_nothing(tmp_path: Path) -> None:
    intact, kept, refused, errors, failure = json.loads(run(NONE_LEFT, tmp_path / "log"))
    assert intact
    assert kept + refused == 101
    assert kept > 1
    assert set(errors) <= {"EMFILE"}
    assert failure == "None"
    assert seglog.verify(tmp_path / "log").ok


def test_a_log_whose_files_were_closed_goes_on_where_it_was(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append(b"first")
        assert files_of(log).suspend()  # as many other logs would make it do
        assert log.read(0).value == b"first"
        assert files_of(log).suspend()
        assert log.append(b"second") == 1
        log.sync()
        assert [record.value for record in log.scan()] == [b"first", b"second"]
    assert seglog.verify(tmp_path / "log").ok


def test_a_log_is_read_where_all_others_keep_their_files_open(tmp_path: Path) -> None:
    assert run(OTHERS_HOLD_ON, tmp_path / "log") == "0\n[b'kept', b'by the child']\n"


def test_logs_that_were_closed_do_not_hide_idle_ones_from_who_needs_a_descriptor(tmp_path: Path) -> None:
    assert run(GONE_ONES, tmp_path / "logs") == "created\n"


@pytest.mark.parametrize("call", ["pread", "size", "map"])
def test_a_read_whose_file_was_closed_and_opened_meanwhile_is_made_again(tmp_path: Path, call: str) -> None:
    file = LocalStorage(tmp_path).create("file")
    file.pwrite(b"ours", 0)
    stale, pipe, turns = file.descriptor, os.pipe(), [None]

    def raced(real: Callable[..., object], *args: object) -> object:
        """Between taking the number and using it: another thread suspends the file and opens it again."""
        if turns:
            turns.pop()
            file.suspend(lambda: None)
            os.dup2(pipe[0], stale)  # the number is a pipe's, then again this file's
            try:
                return real(*args)
            finally:
                os.close(stale)
                assert file.size() == 4
                assert file.descriptor == stale
        return real(*args)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("pread", "fstat"):
            patch.setattr(os, name, partial(raced, getattr(os, name)))
        found = {"pread": lambda: file.pread(4, 0), "size": file.size, "map": lambda: bytes(file.map())}[call]()
    assert found == (4 if call == "size" else b"ours")
    for descriptor in pipe:
        os.close(descriptor)


def test_a_file_is_opened_again_in_a_child_although_a_thread_of_the_parent_was_at_it(tmp_path: Path) -> None:
    file = LocalStorage(tmp_path).create("file")
    file.pwrite(b"ours", 0)
    file.suspend(lambda: None)
    holding, done = threading.Event(), threading.Event()

    def hold() -> None:
        with LocalFile._installing:
            holding.set()
            done.wait(HANG_SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait(HANG_SECONDS)
    pid = os.fork()
    if not pid:
        signal.alarm(10)
        os._exit(0 if file.pread(4, 0) == b"ours" else 1)
    done.set()
    thread.join()
    assert os.waitpid(pid, 0)[1] == 0


def test_a_file_that_another_one_replaced_is_not_opened_again(tmp_path: Path) -> None:
    file = LocalStorage(tmp_path).create("file")
    file.pwrite(b"ours", 0)
    file.suspend(lambda: None)
    (tmp_path / "other").write_bytes(b"theirs")
    (tmp_path / "other").replace(tmp_path / "file")
    for call in (lambda: file.pread(4, 0), lambda: file.pwrite(b"more", 4), file.size, file.map):
        with pytest.raises(seglog.StorageError) as refused:
            call()
        assert refused.value.errno == errno.ESTALE
    assert (tmp_path / "file").read_bytes() == b"theirs"


def test_a_new_file_that_got_the_inode_of_a_removed_one_is_not_taken_for_it(tmp_path: Path) -> None:
    file = LocalStorage(tmp_path).create("file")
    file.pwrite(b"our header", 0)
    file.suspend(lambda: None)
    (tmp_path / "file").write_bytes(b"another header")  # the inode stays
    with pytest.raises(seglog.StorageError) as refused:
        file.pwrite(b"more", 4)
    assert refused.value.errno == errno.ESTALE
    assert (tmp_path / "file").read_bytes() == b"another header"


def test_a_reader_of_a_topic_that_is_deleted_goes_on_although_its_files_were_closed(tmp_path: Path) -> None:
    with seglog.Broker(tmp_path / "shop") as broker:
        log = broker.create_topic("orders").partition(0)
        for number in range(1000):
            log.append(b"%0500d" % number)
        records = log.scan()
        next(records)
        assert files_of(log).suspend()
        broker.delete_topic("orders")
        assert sum(1 for _ in records) == 999


def test_a_reader_of_a_log_that_is_removed_goes_on_although_its_files_were_closed(tmp_path: Path) -> None:
    log = seglog.open(tmp_path / "log")
    for number in range(1000):
        log.append(b"%0500d" % number)
    records = log.scan()
    next(records)
    assert files_of(log).suspend()
    log.remove()
    assert sum(1 for _ in records) == 999


def test_a_read_that_raced_with_another_file_of_the_same_number_is_made_again(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    ours, theirs = storage.create("ours"), storage.create("theirs")
    ours.pwrite(b"ours", 0)
    theirs.pwrite(b"theirs", 0)

    class Raced(LocalFile):
        """A read takes the number of the file; before it reads, the number is another file's."""

        __slots__ = ()

    raced = Raced(os.dup(ours.descriptor), ours.path)
    number = raced.descriptor
    real = os.pread

    def pread(descriptor: int, length: int, position: int) -> bytes:
        if (descriptor, length) == (number, 4) and raced._suspensions == 0:
            raced.suspend(lambda: None)
            os.dup2(theirs.descriptor, number)
        return real(descriptor, length, position)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", pread)
        assert raced.pread(4, 0) == b"ours"
    if raced.descriptor != number:
        os.close(number)


def test_a_sync_that_fails_while_the_files_are_closed_stops_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = seglog.open(tmp_path / "log")
    log.append(b"never synced")

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("seglog.storage.local_file.sync_data", fail)
        assert not files_of(log).suspend()
    with pytest.raises(seglog.LogPoisoned):
        log.append(b"not acknowledged")
    log.close()


class Holder:
    def __init__(self) -> None:
        self.open, self.busy = True, False

    def suspend(self) -> bool:
        self.open = self.busy
        return not self.busy


def test_those_that_opened_their_files_first_close_them_and_busy_ones_are_passed_over() -> None:
    holders, many = Holders(part=1), [Holder() for _ in range(10)]
    for holder in many:
        holders.add(holder.suspend)
    many[0].busy = True
    del many[1]
    assert holders.suspend(3)  # one of them is gone
    assert [holder.open for holder in many] == [True, False, False, *[True] * 6]
    assert len(holders) == 7
