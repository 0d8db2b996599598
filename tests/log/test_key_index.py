"""KeyIndex: whatever happens to a log, it finds what a scan of the log finds."""

from __future__ import annotations

import copy
import itertools
import os
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seglog
from seglog.config import LogConfig, Retention
from seglog.log import key_index, many
from seglog.record import Record
from tests.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from pathlib import Path

KEYS = [b"", *(b"%d" % number for number in range(12))]
SMALL = LogConfig(segment_bytes=600, retention=Retention(compact=True, min_dirty_ratio=0.0, unkeyed="keep"))
ROWS = st.lists(st.tuples(st.sampled_from([None, *KEYS]), st.none() | st.binary(max_size=20)), min_size=1, max_size=20)
STEPS = st.one_of(
    st.tuples(st.just("batch"), ROWS),
    st.tuples(st.just("append"), st.sampled_from(KEYS)),
    st.tuples(st.just("gap"), st.integers(0, 40)),
    st.tuples(st.just("truncate"), st.integers(0, 10)),
    st.tuples(st.just("compact"), st.just(0)),
    st.tuples(st.just("delete"), st.integers(0, 10)),
    st.tuples(st.just("look"), st.lists(st.sampled_from([*KEYS, b"unknown"]))),
)


def table(rows: Any) -> pa.Table:
    keys, values = zip(*rows, strict=True)
    return pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})


def change(log: seglog.Log, name: str, argument: Any) -> None:
    if name == "batch":
        log.append_batch(table([(key, value or b"" if key is None else value) for key, value in argument]))
    elif name == "append":
        log.append(b"one", key=argument)
    elif name == "gap":
        offset = log.next_offset + argument
        log.append_at(offset, Record(offset, 1, KEYS[argument % len(KEYS)], b"behind a gap", ()))
    elif name == "truncate":
        log.truncate(max(log.lowest_offset, log.next_offset - argument))
    elif name == "compact":
        log.compact()
    elif name == "delete":
        log.delete_before(min(log.next_offset, log.lowest_offset + argument))


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=25), st.booleans())
def test_it_finds_what_a_scan_finds(steps: list[tuple[str, Any]], reads: bool) -> None:
    storage = seglog.MemoryStorage()
    with seglog.open(storage, SMALL) as log:
        reader = seglog.open(storage, mode="r") if reads else log
        with reader:
            index = seglog.KeyIndex(reader)
            for name, argument in steps:
                change(log, name, argument)
                if name == "look":
                    assert index.read_keys(argument) == reader.read_keys(argument)
            assert index.read_keys(KEYS) == reader.read_keys(KEYS)


def test_it_grows_with_the_number_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "FIRST_SLOTS", 2)
    keys = [b"key-%d" % number for number in range(3000)]
    with seglog.open(seglog.MemoryStorage()) as log:
        index = seglog.KeyIndex(log)
        assert (len(index), index.read_keys(keys)) == (0, {})
        log.append_batch(table([(key, b"old") for key in keys]))
        log.append_batch(table([(key, b"new") for key in keys[::2]]))
        found = index.read_keys([*keys, b"unknown"])
        assert [record.value for record in found.values()] == [b"new", b"old"] * 1500
        assert list(found) == keys
        assert len(index) == 3000
        assert 24 * 3000 / 0.9 <= index.nbytes <= 2 * 24 * 3000 / 0.9 + 24


def test_it_has_no_record_of_another_key_whose_fingerprint_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    one = key_index.KeyIndex._fingerprints
    monkeypatch.setattr(key_index.KeyIndex, "_fingerprints", lambda self, keys: one(self, keys) * 0 + 7)
    with seglog.open(seglog.MemoryStorage()) as log:
        log.append(b"value", key=b"there")
        index = seglog.KeyIndex(log)
        assert index.read_keys([b"other"]) == {}
        assert index.read_keys([b"there"])[b"there"].value == b"value"


def test_after_an_error_it_reads_the_log_again(path: Path) -> None:
    with seglog.open(path) as log:
        log.append(b"first", key=b"a")
        log.append(b"second", key=b"b")
        index = seglog.KeyIndex(log)
        log.append(b"third", key=b"a")
        log.sync()
        with (path / log.segments[-1].name).open("r+b") as store:
            store.seek(-1, 2)
            byte = store.read(1)
            store.seek(-1, 2)
            store.write(bytes([byte[0] ^ 1]))
            store.flush()
            with pytest.raises(seglog.CorruptRecord):
                index.read_keys([b"b"])
            store.seek(-1, 2)
            store.write(byte)
        assert {key: record.value for key, record in index.read_keys([b"a", b"b"]).items()} == {
            b"a": b"third",
            b"b": b"second",
        }


def test_several_threads_look_while_the_log_grows() -> None:
    with seglog.open(seglog.MemoryStorage()) as log:
        index, wrong, ended = seglog.KeyIndex(log), list[int](), threading.Event()

        def look() -> None:
            last = -1
            while not ended.is_set():
                found = index.read_keys([b"counter"])
                value = int(found[b"counter"].value or b"-1") if found else -1
                wrong.extend([value] if value < last else [])
                last = value

        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(500):
            log.append(b"%d" % number, key=b"counter")
            log.append(b"other", key=b"%d" % number)
        ended.set()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert index.read_keys([b"counter"])[b"counter"].value == b"499"
        assert len(index) == 501


@pytest.mark.parametrize("bad", ["orders", None, 3])
def test_what_is_no_log_is_refused(bad: Any) -> None:
    with pytest.raises(seglog.InvalidType, match="KeyIndex takes a Log"):
        seglog.KeyIndex(bad)


@pytest.mark.parametrize("bad", [b"key", "key", ["key"], [None], 3])
def test_what_are_no_keys_is_refused(bad: Any) -> None:
    with seglog.open(seglog.MemoryStorage()) as log, pytest.raises(seglog.InvalidType, match="keys"):
        seglog.KeyIndex(log).read_keys(bad)


def test_a_closed_log_is_reported() -> None:
    with seglog.open(seglog.MemoryStorage()) as log:
        index = seglog.KeyIndex(log)
    with pytest.raises(seglog.LogClosed):
        index.read_keys([b"key"])


def test_a_copy_is_refused() -> None:
    with seglog.open(seglog.MemoryStorage()) as log, pytest.raises(seglog.InvalidType, match="copied"):
        copy.copy(seglog.KeyIndex(log))


def test_an_older_record_is_found_when_repair_removes_the_newest(path: Path) -> None:
    with seglog.open(path) as log:
        for key, value in ((b"k", b"the old one"), (b"o", b"other"), (b"k", b"the new one"), (b"z", b"other")):
            log.append(value, key=key)
        log.sync()
        index = seglog.KeyIndex(log)
        store = path / log.segments[-1].name
        damaged = store.read_bytes().replace(b"the new one", b"the bad one")
        with store.open("r+b") as file:
            file.write(damaged)
        log.repair()
        for _ in range(2):
            assert {key: one.value for key, one in index.read_keys([b"k", b"o"]).items()} == {
                b"k": b"the old one",
                b"o": b"other",
            }


def test_a_key_that_is_gone_is_scanned_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scans = []

    def newest_of(view: Any, keys: Any) -> Any:
        scans.append([*keys])
        return many.newest_of(view, keys)

    monkeypatch.setattr(key_index, "newest_of", newest_of)
    config = LogConfig(segment_bytes=512, retention=Retention(compact=True, min_dirty_ratio=0.0, delete_retention=0.0))
    with seglog.open(seglog.MemoryStorage(), config, clock=itertools.count(0, 10**9).__next__) as log:
        for number in range(30):
            log.append(b"value", key=b"%d" % number)
        log.append(None, key=b"3")
        for number in range(30, 60):
            log.append(b"value", key=b"%d" % number)
        index = seglog.KeyIndex(log)
        assert index.read_keys([b"3"])[b"3"].value is None
        for _ in range(3):
            log.compact()
        for _ in range(3):
            assert index.read_keys([b"3"]) == log.read_keys([b"3"]) == {}
        assert scans == [[b"3"]]


def test_keys_of_deleted_records_take_no_memory_once_it_has_to_grow() -> None:
    config = LogConfig(segment_bytes=200_000, retention=Retention(bytes=400_000))
    with seglog.open(seglog.MemoryStorage(), config) as log:
        index = seglog.KeyIndex(log)
        for turn in range(30):
            log.append_batch(table([(b"%d-%d" % (turn, number), b"value") for number in range(5000)]))
            log.expire()
            assert index.read_keys([b"0-0"]) == log.read_keys([b"0-0"])
        assert index.nbytes < 100 * len(log)
        assert len(index.read_keys([b"29-%d" % number for number in range(5000)])) == 5000


def test_a_reader_of_an_archive_finds_what_was_deleted_here(path: Path, tmp_path: Path) -> None:
    url = (tmp_path / "archive").as_uri()
    with seglog.open(path, LogConfig(segment_bytes=1024)) as log, seglog.Archiver(path, url) as archiver:
        for number in range(100):
            log.append(b"value", key=b"%d" % number)
        log.sync()
        archiver.step()
        with seglog.open(path, mode="r", archive=url) as reader:
            for number in range(100, 200):
                log.append(b"value", key=b"%d" % number)
            log.sync()
            archiver.step()
            log.alter(retention=Retention(bytes=4096))
            log.expire()
            index = seglog.KeyIndex(reader)  # the archive was looked at just before, and is not looked at again so soon
            until(lambda: reader.lowest_offset == 0)
            assert sorted(index.read_keys([b"5", b"105", b"199"])) == [b"105", b"199", b"5"]


def test_a_child_that_is_forked_within_a_call_looks_up_keys(path: Path) -> None:
    with seglog.open(path) as log:
        log.append_batch(table([(b"%d" % number, b"value") for number in range(5000)]))
        index = seglog.KeyIndex(log)
        with index._mutex:  # as another thread would have it
            child = os.fork()
            if child == 0:
                found = {}
                try:
                    thread = threading.Thread(target=lambda: found.update(index.read_keys([b"4999"])), daemon=True)
                    thread.start()
                    thread.join(HANG_SECONDS)
                finally:
                    os._exit(0 if list(found) == [b"4999"] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_signal_handler_within_a_call_looks_up_keys_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with seglog.open(seglog.MemoryStorage()) as log:
        log.append(b"value", key=b"key")
        index, nested = seglog.KeyIndex(log), list[Any]()
        follow = key_index.KeyIndex._follow

        def within(self: seglog.KeyIndex) -> Any:
            view = follow(self)
            if not nested:
                nested.append(None)
                log.append(b"newer", key=b"key")
                nested.append(index.read_keys([b"key"])[b"key"].value)
            return view

        monkeypatch.setattr(key_index.KeyIndex, "_follow", within)
        assert index.read_keys([b"key"])[b"key"].value == b"value"
        assert nested == [None, b"newer"]
        assert index.read_keys([b"key"])[b"key"].value == b"newer"
