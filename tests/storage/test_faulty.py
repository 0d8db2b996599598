"""The faulty storage fails exactly at the calls given to it, and at no others."""

from __future__ import annotations

import errno

import pytest

from seglog.errors import StorageError
from seglog.storage import MemoryStorage
from seglog.testing.faulty import READING, SYNCING, WRITING, Call, Crashed, Fault, FaultyStorage


@pytest.fixture
def memory() -> MemoryStorage:
    storage = MemoryStorage()
    storage.make([])
    return storage


def test_every_call_of_the_contract_is_either_reading_or_writing() -> None:
    from seglog.storage import File, Lock, Storage  # noqa: PLC0415 - protocols, looked at by name here only

    methods = {name for kind in (File, Lock, Storage) for name in vars(kind) if not name.startswith("_")}
    assert methods - {"close", "release"} == READING | WRITING
    assert not READING & WRITING
    assert SYNCING < WRITING


def test_calls_are_noted_in_their_order(memory: MemoryStorage) -> None:
    faulty = FaultyStorage(memory)
    faulty.create("a").pwrite(b"x", 0)
    faulty.rename("a", "b")
    assert faulty.calls == [Call("create", "a"), Call("pwrite", "a"), Call("rename", "b")]


def test_the_nth_call_fails_once(memory: MemoryStorage) -> None:
    faulty = FaultyStorage(memory, Fault(operations=frozenset({"pwrite"}), at=2, error=errno.ENOSPC))
    file = faulty.create("a")
    file.pwrite(b"x", 0)
    with pytest.raises(StorageError) as error:
        file.pwrite(b"y", 1)
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, "<memory>/a")
    file.pwrite(b"z", 1)
    assert file.pread(9, 0) == b"xz"


def test_or_for_ever_from_there_on(memory: MemoryStorage) -> None:
    faulty = FaultyStorage(memory, Fault(operations=frozenset({"pwrite"}), at=2, error=errno.EIO, forever=True))
    file = faulty.create("a")
    file.pwrite(b"x", 0)
    for _ in range(3):
        with pytest.raises(StorageError):
            file.pwrite(b"y", 1)
    faulty.fault = None
    file.pwrite(b"y", 1)


def test_only_calls_about_the_named_file_count(memory: MemoryStorage) -> None:
    faulty = FaultyStorage(memory, Fault(name=".index", error=errno.EIO, forever=True))
    faulty.create("a.store").pwrite(b"x", 0)
    with pytest.raises(StorageError):
        faulty.create("a.index")


@pytest.mark.parametrize("parts", [False, True])
def test_a_failing_write_may_leave_a_part_of_itself(memory: MemoryStorage, parts: bool) -> None:
    writes = frozenset({"pwrite", "pwritev"})
    faulty = FaultyStorage(memory, Fault(operations=writes, error=errno.ENOSPC, keep=0.5))
    file = faulty.create("a")
    with pytest.raises(StorageError):
        file.pwritev([b"abc", b"def"], 0) if parts else file.pwrite(b"abcdef", 0)
    assert file.pread(9, 0) == b"abc"


def test_after_a_crash_every_call_crashes_and_the_locks_are_free(memory: MemoryStorage) -> None:
    faulty = FaultyStorage(memory, Fault(operations=frozenset({"pwrite"}), keep=0.5))
    lock, file = faulty.try_lock("LOCK"), faulty.create("a")
    assert lock is not None
    with pytest.raises(Crashed):
        file.pwrite(b"abcd", 0)
    for call in (lambda: file.pwrite(b"zz", 0), lambda: file.pread(1, 0), faulty.names, lambda: lock.write(b"")):
        with pytest.raises(Crashed):
            call()
    assert memory.open("a").pread(9, 0) == b"ab"
    assert memory.try_lock("LOCK") is not None
