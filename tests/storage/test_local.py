"""What only a real file system can show: descriptors, forks, permissions, other processes."""

from __future__ import annotations

import errno
import gc
import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from seglog.errors import LogPoisoned, NotALog, StorageError
from seglog.storage import LocalStorage, Subdirectory, must_sync
from seglog.testing.faulty import Fault, FaultyStorage
from seglog.testing.system import FaultySystem

# Newer Pythons warn of any fork of a process with threads; that is just what is tried here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

HOLD = """
import sys
from seglog.storage import LocalStorage
lock = LocalStorage(sys.argv[1]).try_lock("LOCK")
print("held" if lock else "refused", flush=True)
sys.stdin.read()
"""


LIKE_MACOS = """
import collections, errno, fcntl, os, sys
path, refusal = sys.argv[1], int(sys.argv[2])
real, asked, synced = fcntl.fcntl, collections.Counter(), collections.Counter()
fcntl.F_FULLFSYNC = 51  # its number there

def name(descriptor):
    return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))

def full_sync(descriptor, command, *more):
    if command != fcntl.F_FULLFSYNC:
        return real(descriptor, command, *more)
    asked[name(descriptor)] += 1
    if refusal and (refusal != errno.EIO or name(descriptor).endswith(".store")):
        raise OSError(refusal, os.strerror(refusal))
    return 0

fcntl.fcntl, os.fsync = full_sync, lambda descriptor: synced.update([name(descriptor)])
import seglog

try:
    with seglog.open(path) as log:
        log.append(b"v")
        log.sync()
except seglog.SeglogError as error:
    print(type(error).__name__)
print(any(one.endswith(".store") for one in asked), os.path.basename(path) in asked, bool(synced))
"""


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    made = LocalStorage(tmp_path / "log")
    made.make(["tmp"])
    return made


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counted, not used


def holder(path: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_a_file_where_the_directory_should_be_is_not_a_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("mine")
    with pytest.raises(NotALog) as error:
        LocalStorage(tmp_path / "log").exists()
    assert error.value.errno == errno.ENOTDIR
    assert (tmp_path / "log").read_text() == "mine"


def test_a_link_to_nowhere_is_not_a_log(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "nowhere")
    with pytest.raises(NotALog):
        LocalStorage(tmp_path / "log").exists()


def test_a_directory_below_a_file_is_refused_with_our_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError):
        LocalStorage(tmp_path / "file" / "log").make(["tmp"])


def test_making_syncs_every_directory_that_got_a_new_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(LocalStorage, "_sync", staticmethod(synced.append))
    LocalStorage(tmp_path / "a" / "log").make(["tmp"])
    assert synced == [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "log")]


def test_a_file_closes_when_the_last_user_lets_go(storage: LocalStorage) -> None:
    gc.collect()
    before = open_descriptors()
    files = [storage.create(f"file{number}") for number in range(20)]
    assert open_descriptors() == before + 20
    view = files[0].map()
    del files
    gc.collect()
    assert open_descriptors() == before  # a map keeps none
    del view
    gc.collect()
    assert open_descriptors() == before


def test_no_descriptor_left_is_an_error_of_ours(storage: LocalStorage) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        for call in (lambda: storage.create("file"), storage.names, storage.sizes, lambda: storage.try_lock("LOCK")):
            with pytest.raises(StorageError) as error:
                call()
            assert error.value.errno == errno.EMFILE
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_was_synced_went_to_the_system_as_a_sync(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "log")
    with FaultySystem(tmp_path) as system:
        storage.make([])
        file = storage.create("file")
        file.datasync()
        assert system.calls[-1] == ("fdatasync", "log/file")
        storage.sync_directory()
        assert ("fsync", "log") in system.calls[-2:]


def test_a_directory_that_may_not_be_entered_is_an_error_of_ours(tmp_path: Path) -> None:
    program = """
import os, sys
from seglog.errors import StorageError
from seglog.storage import LocalStorage
os.chmod(sys.argv[1], 0o700)
os.setuid(65534)
storage = LocalStorage(sys.argv[1] + "/inner/log")
for call in (storage.exists, lambda: storage.make(["tmp"]), storage.names, lambda: storage.identity("x")):
    try:
        call()
    except StorageError as error:
        assert error.errno == 13, error
    else:
        raise SystemExit("not refused")
"""
    if os.getuid() != 0:
        pytest.skip("only root can become somebody who may not enter")
    locked = tmp_path / "locked"
    locked.mkdir()
    # Who may not enter a directory may not write a coverage file either.
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
    command = [sys.executable, "-c", program, str(locked)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=unmeasured)
    assert (run.returncode, run.stderr) == (0, "")


def test_a_lock_keeps_other_processes_out_and_ends_with_kill_9(storage: LocalStorage) -> None:
    with holder(storage.path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert storage.try_lock("LOCK") is None
        process.kill()
        process.wait()
        assert storage.try_lock("LOCK") is not None


def test_a_forked_child_does_not_hold_the_lock_and_does_not_give_it_back(storage: LocalStorage) -> None:
    lock = storage.try_lock("LOCK")
    child = os.fork()
    if child == 0:
        assert lock is not None
        lock.release()  # the descriptor is closed already: nothing happens
        os._exit(0 if storage.try_lock("LOCK") is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert storage.try_lock("LOCK") is None


def test_a_child_that_lives_on_does_not_keep_the_lock(storage: LocalStorage) -> None:
    lock = storage.try_lock("LOCK")
    assert lock is not None
    waiting, go = os.pipe()
    ready, started = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        os.write(started, b".")  # by now the child has closed its copy
        os.read(waiting, 1)
        os._exit(0)
    try:
        assert os.read(ready, 1) == b"."
        lock.release()
        assert storage.try_lock("LOCK") is not None
    finally:
        for descriptor in (go, waiting, ready, started):
            os.close(descriptor)
        os.waitpid(child, 0)


def test_must_sync_turns_a_failed_sync_into_poison(storage: LocalStorage) -> None:
    faulty = FaultyStorage(storage, Fault(operations=frozenset({"datasync"}), error=errno.EIO))
    file = faulty.create("file")
    with pytest.raises(LogPoisoned) as error:
        must_sync(file.datasync)
    assert error.value.errno == errno.EIO
    must_sync(file.datasync)


def test_a_file_that_goes_while_sizes_are_taken_is_left_out(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("goes", "stays"):
        storage.create(name).pwrite(b"four", 0)
    real = os.listdir

    def while_a_writer_unlinks(directory: str) -> list[str]:
        listed = real(directory)
        storage.unlink("goes")
        return listed

    monkeypatch.setattr(os, "listdir", while_a_writer_unlinks)
    assert storage.sizes() == {"stays": 4}


def test_sizes_are_those_of_files_also_through_links_and_no_others(storage: LocalStorage) -> None:
    storage.create("a.store").pwrite(b"four", 0)
    storage.create("b.index").pwrite(b"two", 0)
    storage.make(["c.store"])
    links = {"d.store": "b.index", "e.store": "nowhere", "f.store": "c.store", "g.store": "a.store"}
    for name, target in links.items():
        Path(storage.path, name).symlink_to(target)
    assert storage.sizes(ending=".store") == {"a.store": 4, "d.store": 3, "g.store": 4}
    assert set(storage.sizes()) == {"a.store", "b.index", "d.store", "g.store"}


def test_a_small_file_is_mapped_without_a_descriptor_of_its_own(storage: LocalStorage) -> None:
    file = storage.create("small")
    file.pwrite(b"content", 0)
    before = open_descriptors()
    view = file.map()
    assert (bytes(view), open_descriptors()) == (b"content", before)


def test_a_file_of_another_user_can_be_locked_and_one_that_may_not_be_made_says_so(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.create("theirs")
    real = os.open

    def as_another_user(path: str, flags: int, *rest: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "denied", path)
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", as_another_user)
    held = storage.try_lock("theirs")
    assert held is not None
    assert storage.try_lock("theirs") is None
    with pytest.raises(StorageError) as error:
        storage.try_lock("missing")
    assert error.value.errno == errno.EACCES


# --- names on disk ----------------------------------------------------------------------------------------------------


def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that fills with the directories that are synced."""
    seen: list[str] = []
    monkeypatch.setattr(LocalStorage, "_sync", staticmethod(lambda path: seen.append(os.path.realpath(path))))
    return seen


def test_an_empty_directory_may_be_anothers_that_died_so_its_name_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real" / "log").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "log")
    seen = synced(monkeypatch)
    LocalStorage(tmp_path / "link").make([])
    assert seen == [str(tmp_path / "real")], "the directory that holds it, not the one that holds the link"


def test_what_a_log_below_another_directory_syncs_is_its_own_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(tmp_path / "broker")
    storage.make(["topic/0/tmp"])
    seen = synced(monkeypatch)
    Subdirectory(storage, "topic/0").sync_directory()
    Subdirectory(storage, "topic/0").sync_directory("tmp")
    assert seen == [str(tmp_path / "broker/topic/0"), str(tmp_path / "broker/topic/0/tmp")]


def test_a_directory_that_holds_something_was_synced_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(tmp_path / "log")
    storage.make(["tmp"])
    seen = synced(monkeypatch)
    storage.make(["tmp"])
    Subdirectory(storage, "tmp").make([])
    assert seen == [str(tmp_path / "log")], "but for the empty one in it"


def test_a_parent_that_may_not_be_read_keeps_nobody_from_a_directory_of_his_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, "not yours", path)

    (tmp_path / "log").mkdir()
    monkeypatch.setattr(LocalStorage, "_sync", staticmethod(refuse))
    LocalStorage(tmp_path / "log").make([])


@pytest.mark.parametrize("below", [False, True])
def test_a_directory_is_gone_for_good_before_the_first_of_its_files_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: bool
) -> None:
    root = LocalStorage(tmp_path / "root")
    storage = Subdirectory(root, "log") if below else LocalStorage(tmp_path / "root" / "log")
    storage.make([])
    storage.create("file")
    left: list[list[str]] = []
    look = lambda path: left.append([entry.name for entry in Path(path).rglob("*")])  # noqa: E731 - as short as it is
    monkeypatch.setattr(LocalStorage, "_sync", staticmethod(look))
    storage.remove()
    ((doomed, file),) = left
    assert doomed.startswith(".log.removed-")
    assert file == "file"
    assert root.names() == []


def test_a_directory_is_removed_with_the_links_in_it_and_not_with_what_they_lead_to(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "log")
    storage.make(["doomed"])
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_text("kept")
    (tmp_path / "log" / "doomed" / "0").symlink_to(tmp_path / "elsewhere")
    storage.remove_directory("doomed")
    assert not storage.exists("doomed")
    assert (tmp_path / "elsewhere" / "kept").read_text() == "kept"


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no /proc here")
@pytest.mark.parametrize(
    ("refusal", "shown"),
    [
        (0, "True True False"),  # files and directories, and no plain fsync beside it
        (errno.ENOTSUP, "True True True"),  # a file system that does not know it gets an fsync instead
        (errno.EIO, "LogPoisoned\nTrue True False"),  # a failed one is not followed by an fsync that succeeds
    ],
)
def test_on_macos_sync_asks_the_drive_to_empty_its_cache(tmp_path: Path, refusal: int, shown: str) -> None:
    command = [sys.executable, "-c", LIKE_MACOS, str(tmp_path / "log"), str(refusal)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == shown + "\n"
