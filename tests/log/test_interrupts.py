"""Ctrl-C at any moment of a wait for a sync: the next thread that waits still gets an answer."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import LogConfig
from seglog.testing.crash_states import present
from seglog.testing.disk import Disk
from seglog.testing.disk_storage import DiskStorage
from tests.log.moments import at_moments
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable


def interrupt(call: Callable[[], object], moment: int, within: str = "durability.py") -> bool:
    """Call, and raise KeyboardInterrupt at the given moment within a module; return whether there was one."""

    def handle() -> None:
        raise KeyboardInterrupt

    try:
        return at_moments(call, {moment}, (within,), handle, raises=True) >= moment
    except KeyboardInterrupt:
        return True


def test_an_interrupt_at_any_moment_of_a_sync_leaves_a_log_that_syncs() -> None:
    moment, struck = 0, True
    while struck:
        moment += 1
        log = seglog.open(seglog.MemoryStorage(), LogConfig(flush_records=1))
        struck = interrupt(lambda log=log: log.append(b"v"), moment)  # type: ignore[misc] # mypy cannot infer it
        other = threading.Thread(target=log.sync, daemon=True)
        other.start()
        other.join(HANG_SECONDS)
        assert not other.is_alive(), f"sync hangs after an interrupt at moment {moment}"
        assert log.durable_offset == log.next_offset
        log.close()
    assert moment > 5, "nothing was interrupted at all"


@pytest.mark.parametrize("within", ["active.py", "active_index.py"])
def test_what_was_appended_before_an_interrupt_survives_power_loss_once_the_log_is_closed(within: str) -> None:
    moment, struck, poisoned = 0, True, 0
    while struck:
        moment += 1
        disk = Disk(recording=True)
        log = seglog.open(DiskStorage(disk))
        log.append(b"before")
        struck = interrupt(lambda log=log: log.append(b"interrupted"), moment, within)  # type: ignore[misc] # as above
        poisoned += log.failure is not None
        log.close()
        for state in present(disk).states(sample=50):
            with seglog.open(DiskStorage(Disk(state.image))) as left:
                assert left.read(0).value == b"before", f"interrupted at moment {moment}"
    assert poisoned, "no interrupt came within the bookkeeping"


@pytest.mark.parametrize("within", ["active.py", "active_index.py", "write_buffer.py", "writer.py"])
def test_what_waited_to_be_written_at_an_interrupt_is_there_once_the_log_is_closed(within: str) -> None:
    moment, struck = 0, True
    while struck:
        moment += 1
        storage = seglog.MemoryStorage()
        log = seglog.open(storage, LogConfig(buffer_bytes=200))
        before = [b"before %d" % number for number in range(3)]
        for value in before:
            log.append(value)

        during = [b"during %d" % number for number in range(4)]  # at the second the buffer runs over

        def append_more(log: seglog.Log = log, during: list[bytes] = during) -> None:
            for value in during:
                log.append(value)

        struck = interrupt(append_more, moment, within)
        acknowledged = log.next_offset if log.failure is None else 3
        log.close()
        with seglog.open(storage) as left:
            assert not left.recovery.events
            kept = [record.value for record in left.scan()]
        assert kept == [*before, *during][: len(kept)], f"interrupted at moment {moment}"
        assert len(kept) >= acknowledged, f"interrupted at moment {moment}"
    assert moment > (3 if within == "active_index.py" else 5), "nothing was interrupted at all"


@pytest.mark.parametrize(
    "within", ["active.py", "active_index.py", "active_files.py", "lookup.py", "syncer.py", "writer_state.py"]
)
def test_an_interrupt_of_a_sync_leaves_a_log_that_is_right_or_refuses(within: str) -> None:
    moment, struck, poisoned = 0, True, 0
    while struck:
        moment += 1
        storage = seglog.MemoryStorage()
        log = seglog.open(storage, LogConfig(segment_bytes=512))
        for number in range(3):
            log.append(b"%d" % number)
        struck = interrupt(log.sync, moment, within)
        poisoned += log.failure is not None
        for number in range(3, 40 if log.failure is None else 3):
            log.append(b"%d" % number)
        log.close()
        with seglog.open(storage) as left:
            assert left.verify().ok, f"interrupted at moment {moment}"
            assert [record.value for record in left.scan()] == [b"%d" % number for number in range(left.next_offset)]
            assert left.next_offset >= 3
    assert moment > (2 if within == "active.py" else 3), "nothing was interrupted at all"
    assert poisoned or within in ("active.py", "active_files.py", "syncer.py", "writer_state.py"), (
        "no interrupt came within the bookkeeping"
    )


STORM = (
    f"HANG_SECONDS = {HANG_SECONDS - 60}"
    """
import faulthandler, random, signal, sys, pyarrow, seglog
from seglog import LogConfig, MemoryStorage, Retention

def handle(signal_number, frame):
    if armed:
        raise KeyboardInterrupt

def interrupted(call, most, times):  # bounded: Python only prints an interrupt raised in a weak reference's callback
    global armed
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, random.random() * most + 1e-5)
        for _ in range(times):
            call()
        armed = False
    except KeyboardInterrupt:
        armed = False

def opened():
    log = seglog.open(MemoryStorage(), LogConfig(buffer_bytes=20_000, retention=Retention(compact=True)))
    log.append_batch(pyarrow.table({"key": [b"%d" % number for number in range(500)] * 2, "value": [b"v"] * 1000}))
    return log

def read():
    for _ in log.batches():
        pass

faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
armed = False
signal.signal(signal.SIGALRM, handle)
log = opened()  # from here on all kernels are there
read(), log.verify(), [log.append(b"v", key=b"k") for _ in range(1000)], log.sync()
for _ in range(int(sys.argv[1])):
    log = opened()
    interrupted(lambda: log.append(b"v" * 100, key=b"k"), 0.002, 5000)
    log = opened()
    interrupted(read, 0.002, 100)
    interrupted(log.verify, 0.005, 100)
signal.setitimer(signal.ITIMER_REAL, 0)
print("alive")
"""
)


@pytest.fixture
def unmeasured(script: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return `script`, whose interpreters coverage does not measure: an interrupt may leave its own lock held."""
    for name in [name for name in os.environ if name.startswith("COVERAGE_PROCESS")]:
        monkeypatch.delenv(name)
    return script


def test_a_process_outlives_interrupts_within_the_kernels(unmeasured: Any) -> None:
    assert unmeasured(STORM, 100) == "alive\n"


FIRST_USE = (
    f"HANG_SECONDS = {HANG_SECONDS - 60}"
    """
import os; os.environ["SEGLOG_KERNELS"] = "jit"
import faulthandler, importlib.abc, signal, sys, threading, pyarrow, seglog
from concurrent.futures import ThreadPoolExecutor
from seglog import LogConfig, MemoryStorage, Retention

def count():
    global at
    at -= 1
    if at == 0:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

class Imports(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.startswith(("numba", "llvmlite")):
            count()

class Lock:
    def __init__(self, lock):
        self.lock, self.release, self._is_owned = lock, lock.release, lock._is_owned
    def acquire(self):
        self.lock.acquire()
        count()

def work():
    log = seglog.open(MemoryStorage(), LogConfig(segment_bytes=20_000, retention=Retention(compact=True)))
    log.append_batch(pyarrow.table({"key": [b"%d" % number for number in range(500)] * 2, "value": [b"v"] * 1000}))
    assert sum(batch.num_rows for batch in log.batches()) == 1000
    assert log.verify().ok
    log.compact()
    assert sum(1 for _ in log.scan()) < 1000
    log.close()

faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
of, at = sys.argv[1], 0
if of == "import":
    sys.meta_path.insert(0, Imports())
else:
    import seglog.kernels.memory
    from numba.core.compiler_lock import global_compiler_lock
    global_compiler_lock._lock = Lock(global_compiler_lock._lock)
at = int(sys.argv[2])
try:
    work()
    print("not interrupted")
except KeyboardInterrupt:
    with ThreadPoolExecutor() as others:
        others.submit(work).result()  # not by this thread, which holds what it may have left locked
    work()
    print("interrupted, and all was well")
"""
)


@pytest.mark.parametrize(
    ("of", "at"),
    [
        pytest.param("import", 1, marks=pytest.mark.proof),
        ("import", 60),
        pytest.param("import", 200, marks=pytest.mark.proof),
        pytest.param("lock", 1, marks=pytest.mark.proof),
        pytest.param("lock", 9, marks=pytest.mark.proof),
    ],
)
def test_an_interrupt_while_the_kernels_load_leaves_a_process_that_can_use_them(
    unmeasured: Any, of: str, at: int
) -> None:
    assert unmeasured(FIRST_USE, of, at) == "interrupted, and all was well\n"
