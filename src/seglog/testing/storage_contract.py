"""The suite that every storage must pass: each obligation in seglog.storage.base as a test. Needs pytest.

    from seglog.testing.storage_contract import StorageContract

    class TestMyStorage(StorageContract):
        @pytest.fixture
        def storage(self):
            return MyStorage(...)          # a place where nothing exists yet

Call `pytest.register_assert_rewrite("seglog.testing.storage_contract")` before that import to see values in failures.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

import pytest

from seglog.errors import NotALog, StorageError
from seglog.storage import File, Storage


def _refused(error: pytest.ExceptionInfo[StorageError], number: int, name: str) -> bool:
    """Whether an error has the errno and the path that an OSError should have."""
    return error.value.errno == number and name in str(error.value.filename)


class StorageContract:
    """Override `storage`: return an empty one on which `make` was not called."""

    @pytest.fixture
    def storage(self) -> Storage:
        raise NotImplementedError("a subclass of StorageContract must provide the storage to test")

    @pytest.fixture
    def made(self, storage: Storage) -> Storage:
        storage.make(["tmp", "readers"])
        return storage

    @pytest.fixture
    def file(self, made: Storage) -> File:
        return made.create("file")

    # --- directory and names ----------------------------------------------------------------------------------------

    def test_it_exists_once_it_was_made(self, storage: Storage) -> None:
        assert not storage.exists()
        storage.make(["tmp"])
        assert storage.exists()

    def test_making_twice_changes_nothing(self, made: Storage) -> None:
        made.create("tmp/file").pwrite(b"kept", 0)
        made.make(["tmp", "readers"])
        assert made.open("tmp/file").pread(9, 0) == b"kept"

    def test_it_exists_by_the_names_of_its_directories(self, storage: Storage) -> None:
        assert not storage.exists("deep/er")
        storage.make(["deep/er"])
        assert storage.exists("deep/er")
        assert storage.exists("deep")
        assert not storage.exists("dee")
        assert storage.names() == ["deep"]

    def test_a_file_is_no_directory(self, made: Storage) -> None:
        made.create("file")
        with pytest.raises(NotALog):
            made.exists("file")
        assert made.identity("file/deeper") is None

    def test_an_empty_directory_that_was_there_may_be_made(self, storage: Storage) -> None:
        storage.make([])
        storage.make([])
        assert storage.exists()
        assert storage.names() == []

    def test_a_directory_is_made_before_what_is_in_it(self, made: Storage) -> None:
        made.create("file")
        calls: tuple[Callable[[str], object], ...] = (
            made.create,
            made.try_lock,
            lambda name: made.rename("file", name),
            lambda name: made.link("file", name),
        )
        for call in calls:
            with pytest.raises(StorageError) as error:
                call("absent/file")
            assert error.value.errno == errno.ENOENT
        assert made.names("absent") == []

    def test_names_are_those_of_one_directory(self, made: Storage) -> None:
        made.create("b")
        made.create("a")
        made.create("tmp/c")
        assert [name for name in made.names() if name in ("a", "b", "c")] == ["a", "b"]
        assert made.names("tmp") == ["c"]

    def test_a_directory_that_is_not_there_has_no_names(self, made: Storage) -> None:
        assert made.names("nowhere") == []
        assert made.names("readers") == []

    def test_sizes_tell_every_file_at_the_top_and_no_other(self, made: Storage) -> None:
        made.create("empty")
        made.create("three").pwrite(b"abc", 0)
        made.create("tmp/deep").pwrite(b"abc", 0)
        assert made.sizes() == {"empty": 0, "three": 3}

    def test_sizes_of_names_with_an_ending_leave_out_all_others(self, made: Storage) -> None:
        for name in ("one.store", "one.index", "tmp/two.store", "tmp/store"):
            made.create(name).pwrite(b"abc", 0)
        assert made.sizes(ending=".store") == {"one.store": 3}
        assert made.sizes("tmp", ending=".store") == {"two.store": 3}

    def test_a_missing_file_is_enoent(self, made: Storage) -> None:
        with pytest.raises(StorageError) as error:
            made.open("absent")
        assert _refused(error, errno.ENOENT, "absent")
        assert error.value.retriable

    def test_creating_over_a_file_is_eexist_and_keeps_it(self, made: Storage) -> None:
        made.create("file").pwrite(b"kept", 0)
        with pytest.raises(StorageError) as error:
            made.create("file")
        assert _refused(error, errno.EEXIST, "file")
        assert made.open("file").pread(9, 0) == b"kept"

    def test_creating_with_replace_begins_empty(self, made: Storage) -> None:
        made.create("file").pwrite(b"old", 0)
        assert made.create("file", replace=True).size() == 0
        assert made.open("file").size() == 0

    def test_rename_moves_and_replaces_in_one_step(self, made: Storage) -> None:
        made.create("tmp/new").pwrite(b"new", 0)
        made.create("file").pwrite(b"older", 0)
        made.rename("tmp/new", "file")
        assert made.open("file").pread(9, 0) == b"new"
        assert made.names("tmp") == []

    def test_a_file_that_was_replaced_is_still_read_by_who_has_it_open(self, made: Storage) -> None:
        made.create("file").pwrite(b"old", 0)
        held = made.open("file")
        made.create("tmp/new").pwrite(b"new", 0)
        made.rename("tmp/new", "file")
        assert held.pread(9, 0) == b"old"

    def test_renaming_what_is_not_there_is_enoent(self, made: Storage) -> None:
        with pytest.raises(StorageError) as error:
            made.rename("absent", "file")
        assert error.value.errno == errno.ENOENT

    def test_a_directory_is_renamed_with_all_that_is_in_it(self, made: Storage) -> None:
        made.make(["old/deep", "older"])
        made.create("old/file").pwrite(b"1", 0)
        made.create("old/deep/file").pwrite(b"2", 0)
        made.create("older/file").pwrite(b"3", 0)
        made.rename("old", "new")
        assert not made.exists("old")
        assert made.names("new") == ["deep", "file"]
        found = [made.open(name).pread(9, 0) for name in ("new/file", "new/deep/file", "older/file")]
        assert found == [b"1", b"2", b"3"]

    def test_a_directory_never_replaces_what_is_there(self, made: Storage) -> None:
        made.make(["old", "full"])
        made.create("full/file")
        made.create("file")
        for taken, number in (("full", errno.ENOTEMPTY), ("file", errno.ENOTDIR)):
            with pytest.raises(StorageError) as error:
                made.rename("old", taken)
            assert error.value.errno == number
        assert made.names("full") == ["file"]
        assert made.exists("old")

    def test_what_is_open_and_locked_goes_along_with_its_directory(self, made: Storage) -> None:
        made.make(["old"])
        file, lock = made.create("old/file"), made.try_lock("old/LOCK")
        assert lock is not None
        made.rename("old", "new")
        file.pwrite(b"kept", 0)
        assert made.open("new/file").pread(9, 0) == b"kept"
        assert made.try_lock("new/LOCK") is None
        lock.release()
        assert made.try_lock("new/LOCK") is not None

    def test_a_link_is_a_second_name_of_the_same_bytes(self, made: Storage) -> None:
        made.create("file").pwrite(b"old", 0)
        made.link("file", "second")
        made.open("file", writable=True).pwrite(b"new", 0)
        assert made.open("second").pread(9, 0) == b"new"
        made.unlink("file")
        assert made.open("second").pread(9, 0) == b"new"

    def test_a_link_never_replaces(self, made: Storage) -> None:
        made.create("file")
        made.create("taken").pwrite(b"kept", 0)
        with pytest.raises(StorageError) as error:
            made.link("file", "taken")
        assert _refused(error, errno.EEXIST, "taken")
        assert made.open("taken").pread(9, 0) == b"kept"

    def test_renaming_one_name_of_a_file_onto_the_other_keeps_both(self, made: Storage) -> None:
        made.create("file")
        made.link("file", "second")
        made.rename("file", "second")
        assert {"file", "second"} <= set(made.names())

    def test_unlink_removes_a_name_and_does_not_mind_a_missing_one(self, made: Storage) -> None:
        made.create("file")
        made.unlink("file")
        made.unlink("file")
        assert made.sizes() == {}

    def test_an_unlinked_file_is_still_read_by_who_has_it_open(self, file: File, made: Storage) -> None:
        file.pwrite(b"here", 0)
        made.unlink("file")
        assert file.pread(9, 0) == b"here"

    def test_directories_can_be_synced(self, made: Storage) -> None:
        made.create("tmp/file")
        made.sync_directory()
        made.sync_directory("tmp")

    def test_identity_changes_when_a_name_is_replaced(self, made: Storage) -> None:
        assert made.identity("file") is None
        made.create("file").pwrite(b"same", 0)
        before = made.identity("file")
        assert before is not None
        assert made.identity("file") == before
        made.create("tmp/new").pwrite(b"same", 0)
        made.rename("tmp/new", "file")
        assert made.identity("file") not in (None, before)
        made.unlink("file")
        assert made.identity("file") is None
        made.make(["directory"])
        assert made.identity("directory") is None

    def test_a_directory_goes_with_all_that_is_in_it_and_nothing_else(self, made: Storage) -> None:
        made.make(["deep", "deep/er", "deeply"])
        for name in ("deep/1", "deep/er/2", "deeply/3", "4"):
            made.create(name)
        made.remove_directory("deep")
        made.remove_directory("deep")
        assert made.names("deep") == []
        assert made.names("deeply") == ["3"]
        assert "4" in made.names()

    def test_only_an_empty_directory_is_removed_if_empty(self, made: Storage) -> None:
        made.make(["full", "empty"])
        made.create("full/1")
        for name in ("full", "empty", "missing"):
            made.remove_if_empty(name)
        assert made.names("full") == ["1"]
        assert not made.exists("empty")

    def test_space_is_left(self, made: Storage) -> None:
        assert made.free_bytes() > 0
        assert made.free_bytes("tmp") > 0

    def test_remove_leaves_nothing_and_may_be_made_again(self, made: Storage) -> None:
        made.create("file")
        made.remove()
        assert not made.exists()
        made.make(["tmp"])
        assert made.sizes() == {}

    # --- one file -----------------------------------------------------------------------------------------------------

    def test_what_was_written_is_read(self, file: File) -> None:
        file.pwrite(b"abcdef", 0)
        file.pwrite(bytearray(b"XY"), 2)
        file.pwrite(memoryview(b"Z"), 5)
        assert (file.pread(6, 0), file.size()) == (b"abXYeZ", 6)

    def test_a_read_is_short_only_where_the_file_ends(self, file: File) -> None:
        file.pwrite(b"abcdef", 0)
        assert file.pread(100, 4) == b"ef"
        assert file.pread(100, 6) == b""
        assert file.pread(100, 600) == b""
        assert file.pread(0, 0) == b""

    def test_a_read_gives_bytes_that_do_not_change(self, file: File) -> None:
        file.pwrite(b"old", 0)
        data = file.pread(3, 0)
        file.pwrite(b"new", 0)
        assert data == b"old"
        assert type(data) is bytes

    def test_a_write_behind_the_end_leaves_zeros_between(self, file: File) -> None:
        file.pwrite(b"end", 5)
        assert file.pread(9, 0) == b"\0\0\0\0\0end"

    @pytest.mark.parametrize("parts", [0, 1, 2, 512, 513, 3000])
    def test_parts_are_written_end_to_end(self, file: File, parts: int) -> None:
        pieces = [b"%d," % number for number in range(parts)]
        file.pwrite(b"head", 0)
        file.pwritev(pieces, 4)
        assert file.pread(10**6, 0) == b"head" + b"".join(pieces)

    def test_writes_are_seen_at_once_by_other_handles(self, file: File, made: Storage) -> None:
        other = made.open("file")
        file.pwrite(b"seen", 0)
        assert (other.pread(9, 0), other.size()) == (b"seen", 4)

    def test_truncate_cuts_and_extends_with_zeros(self, file: File) -> None:
        file.pwrite(b"abcdef", 0)
        file.truncate(2)
        assert file.pread(9, 0) == b"ab"
        file.truncate(4)
        assert file.pread(9, 0) == b"ab\0\0"

    def test_a_file_opened_for_reading_refuses_writes(self, file: File, made: Storage) -> None:
        file.pwrite(b"kept", 0)
        reading = made.open("file")
        with pytest.raises(StorageError) as error:
            reading.pwrite(b"x", 0)
        assert _refused(error, errno.EBADF, "file")
        with pytest.raises(StorageError):
            reading.pwritev([b"x"], 0)
        with pytest.raises(StorageError):
            reading.truncate(0)
        assert file.pread(9, 0) == b"kept"

    def test_a_file_opened_for_writing_goes_on_where_it_was(self, file: File, made: Storage) -> None:
        file.pwrite(b"kept", 0)
        again = made.open("file", writable=True)
        again.pwrite(b"more", 4)
        assert file.pread(9, 0) == b"keptmore"

    def test_datasync_returns(self, file: File) -> None:
        file.pwrite(b"x", 0)
        file.datasync()

    def test_a_map_holds_the_present_bytes_read_only(self, file: File) -> None:
        assert bytes(file.map()) == b""
        file.pwrite(b"abcdef", 0)
        view = file.map()
        assert bytes(view) == b"abcdef"
        assert view.readonly

    def test_a_map_outlives_the_name_and_the_handle(self, file: File, made: Storage) -> None:
        file.pwrite(b"abcdef", 0)
        view = file.map()
        made.unlink("file")
        file.close()
        assert bytes(view) == b"abcdef"

    def test_the_file_grows_while_a_map_of_it_is_held(self, file: File) -> None:
        file.pwrite(b"abcdef", 0)
        view = file.map()
        file.pwrite(b"ghi", 6)
        assert bytes(view[:6]) == b"abcdef"
        assert bytes(file.map()) == b"abcdefghi"

    def test_a_closed_file_refuses_every_call(self, file: File) -> None:
        file.pwrite(b"abc", 0)
        file.close()
        file.close()
        calls: tuple[Callable[[], object], ...] = (
            file.size,
            file.datasync,
            file.map,
            lambda: file.pread(1, 0),
            lambda: file.pwrite(b"x", 0),
            lambda: file.pwritev([b"x"], 0),
            lambda: file.truncate(0),
        )
        for call in calls:
            with pytest.raises(StorageError) as error:
                call()
            assert _refused(error, errno.EBADF, "file")

    def test_a_file_tells_its_path(self, file: File, made: Storage) -> None:
        assert file.path == f"{made.path}/file"

    def test_threads_read_whole_pieces_while_one_writes(self, file: File) -> None:
        failures: list[bytes] = []
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                data = file.pread(10**6, 0)
                if data != bytes(number % 251 for number in range(len(data))):
                    failures.append(data)

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for number in range(2000):
            file.pwrite(bytes([number % 251]), number)
        done.set()
        for reader in readers:
            reader.join()
        assert failures == []

    # --- locks --------------------------------------------------------------------------------------------------------

    def test_a_lock_is_held_by_one(self, made: Storage) -> None:
        lock = made.try_lock("LOCK")
        assert lock is not None
        assert made.try_lock("LOCK") is None
        assert made.try_lock("LOCK", shared=True) is None
        lock.release()
        lock.release()
        assert made.try_lock("LOCK") is not None

    def test_a_shared_lock_is_held_by_many_and_keeps_an_exclusive_one_out(self, made: Storage) -> None:
        first, second = made.try_lock("LOCK", shared=True), made.try_lock("LOCK", shared=True)
        assert first is not None
        assert second is not None
        first.release()
        assert made.try_lock("LOCK") is None
        second.release()
        assert made.try_lock("LOCK") is not None

    def test_a_refused_lock_takes_nothing_from_its_holder(self, made: Storage) -> None:
        lock = made.try_lock("LOCK")
        assert made.try_lock("LOCK") is None
        assert made.try_lock("LOCK") is None
        assert lock is not None
        lock.release()

    def test_a_lock_ends_when_its_holder_lets_go_of_it(self, made: Storage) -> None:
        lock = made.try_lock("LOCK")
        assert lock is not None
        del lock
        assert made.try_lock("LOCK") is not None

    def test_a_locked_file_can_be_written_and_read_by_others(self, made: Storage) -> None:
        lock = made.try_lock("readers/one", shared=True)
        assert lock is not None
        lock.write(b"1234\n")
        lock.write(b"56\n")
        assert made.open("readers/one").pread(9, 0) == b"56\n"

    def test_a_lock_does_not_empty_a_file_that_was_there(self, made: Storage) -> None:
        made.create("LOCK").pwrite(b"kept", 0)
        assert made.try_lock("LOCK") is not None
        assert made.open("LOCK").pread(9, 0) == b"kept"

    def test_locks_on_other_names_do_not_matter(self, made: Storage) -> None:
        one, other = made.try_lock("one"), made.try_lock("other")
        assert one is not None
        assert other is not None

    def test_a_lock_knows_when_its_file_is_no_longer_the_one_at_its_name(self, made: Storage) -> None:
        made.make(["removed", "moved"])
        names = ("LOCK", "removed/LOCK", "moved/LOCK", "replaced")
        locks = {name: made.try_lock(name) for name in names}
        assert [lock is not None and lock.is_current() for lock in locks.values()] == [True] * 4
        made.unlink("LOCK")
        made.remove_directory("removed")
        made.rename("moved", "elsewhere")
        made.create("other")
        made.rename("other", "replaced")
        assert [lock is not None and lock.is_current() for lock in locks.values()] == [False] * 4
        again = made.try_lock("LOCK")  # another process can use the name
        assert again is not None
        assert again.is_current()
        assert not locks["LOCK"].is_current()  # type: ignore[union-attr] # it was taken above
