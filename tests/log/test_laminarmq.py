from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import pytest

from seglog.errors import CorruptRecord, LogNotFound, NotALog, OffsetCompacted, OffsetOutOfRange, StorageError
from seglog.log import laminarmq
from seglog.log.laminarmq import LaminarmqLog, open_laminarmq
from tests.laminarmq_samples import (
    CLOSED,
    DATA,
    KILLED_KEPT,
    Told,
    files_of,
    kept_when_killed,
    segment_of,
    stored,
    told,
)

ATTACKED = ["cut-at-base-reopened", "metadata", "truncated"]


def records(log: LaminarmqLog) -> Told:
    return [tuple(record) for record in log.scan()]


@pytest.mark.parametrize("name", CLOSED)
def test_what_laminarmq_was_given_is_what_is_read(name: str) -> None:
    log = open_laminarmq(DATA / name)
    assert records(log) == told(name)
    assert log.records == len(told(name))
    assert log.recovery.clean


def test_the_segments_that_tests_make_are_laminarmqs_byte_for_byte() -> None:
    made, files = segment_of([value for *_, value in told("plain")[:8]]), files_of("plain")
    assert made == {name: files[name] for name in made}


@pytest.mark.parametrize("name", CLOSED)
def test_every_record_is_read_by_its_offset(name: str) -> None:
    log = open_laminarmq(DATA / name)
    assert [tuple(log.read(offset)) for offset, *_ in told(name)] == told(name)


@pytest.mark.parametrize(
    ("name", "lowest", "end"), [("empty", 7, 7), ("expired", 23, 30), ("metadata", 5 * 10**9, 5 * 10**9 + 12)]
)
def test_a_log_begins_and_ends_where_laminarmqs_does(name: str, lowest: int, end: int) -> None:
    log = open_laminarmq(DATA / name)
    assert (log.lowest_offset, log.next_offset) == (lowest, end)
    for outside in (lowest - 1, end):
        with pytest.raises(OffsetOutOfRange):
            log.read(outside)


def test_a_range_is_read_across_segments() -> None:
    log = open_laminarmq(DATA / "plain")
    for start in range(31):
        for stop in range(start, 33):
            assert [record.offset for record in log.scan(start, stop)] == list(range(start, min(stop, 30)))


@pytest.mark.parametrize("name", ["cut-at-base-reopened", "cut-at-base-rolled"])
def test_an_offset_that_laminarmq_left_out_is_told_with_the_next_one(name: str) -> None:
    offsets = [offset for offset, *_ in told(name)]
    (left_out,) = set(range(offsets[0], offsets[-1])) - set(offsets)
    with pytest.raises(OffsetCompacted) as caught:
        open_laminarmq(DATA / name).read(left_out)
    assert caught.value.next_offset == left_out + 1


@pytest.mark.parametrize("length", [1, 40, 300])
def test_reads_of_any_length_give_the_same_records(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    monkeypatch.setattr(laminarmq, "READ_BYTES", length)
    assert records(open_laminarmq(DATA / "plain")) == told("plain")


# --- what a crash left ------------------------------------------------------------------------------------------------


def test_a_store_that_is_ahead_of_its_index_is_told() -> None:
    log = open_laminarmq(DATA / "killed-store-ahead")
    assert records(log) == kept_when_killed()
    (event,) = log.recovery.events
    end = KILLED_KEPT * 29
    assert (event.kind, event.position, event.bytes) == (
        "torn",
        end,
        len(files_of("killed-store-ahead")["0.store"]) - end,
    )


def test_an_index_that_is_ahead_of_its_store_is_told() -> None:
    log = open_laminarmq(DATA / "killed-index-ahead")
    assert records(log) == []
    (event,) = log.recovery.events
    assert (event.kind, event.position, event.bytes) == ("torn", 16, KILLED_KEPT * 16)


def test_bytes_between_records_that_a_crash_left_are_told_and_what_was_appended_behind_them_is_read() -> None:
    log = open_laminarmq(DATA / "killed-reopened")
    assert records(log) == kept_when_killed() + told("killed-reopened")
    assert [event.kind for event in log.recovery.events] == ["torn"]


# --- damage -----------------------------------------------------------------------------------------------------------


def outcome(files: dict[str, bytes]) -> tuple[str, Told]:
    """Return how a log reads: "clean", "told" (a torn tail is reported) or "damaged"; and the records read."""
    log, seen = open_laminarmq(stored(files)), []
    try:
        seen.extend(tuple(record) for record in log.scan())
    except CorruptRecord as error:
        assert error.path.endswith(".store")
        assert error.position >= 0
        assert not seen or error.offset > seen[-1][0]
        return "damaged", seen
    return ("clean" if log.recovery.clean else "told"), seen


def flips(files: dict[str, bytes], step: int) -> Iterator[tuple[str, int, dict[str, bytes]]]:
    for name, data in files.items():
        for bit in range(0, 8 * len(data), step):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            yield name, bit // 8, {**files, name: bytes(flipped)}


@pytest.mark.no_cover
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.proof)])  # 7 meets each byte
@pytest.mark.parametrize("name", ATTACKED)
def test_a_flipped_bit_is_noticed_everywhere_but_in_the_padding(name: str, step: int) -> None:
    truth, unnoticed = told(name), set()
    for file, position, files in flips(files_of(name), step):
        how, seen = outcome(files)
        assert seen == truth[: len(seen)], (file, position)
        if how == "clean":
            assert seen == truth, (file, position)
            unnoticed.add((file, position))
    indexes = [file for file, data in files_of(name).items() if file.endswith(".index") and data]
    assert unnoticed == {(file, position) for file in indexes for position in range(8, 16)}


@pytest.mark.parametrize("name", ["plain", *ATTACKED])
def test_a_file_cut_anywhere_is_noticed_and_gives_only_whole_records(name: str) -> None:
    files, truth = files_of(name), told(name)
    for file, data in files.items():
        for length in range(len(data)):
            how, seen = outcome({**files, file: data[:length]})
            assert how != "clean", (file, length)
            assert seen == truth[: len(seen)], (file, length)


@pytest.mark.parametrize("name", ["plain", *ATTACKED])
def test_a_file_with_zeros_behind_it_gives_all_records_and_is_told(name: str) -> None:
    files = files_of(name)
    for file, data in files.items():
        for more in (1, 16, 40):
            how, seen = outcome({**files, file: data + bytes(more)})
            assert (how, seen) == ("told", told(name)), (file, more)


def test_a_missing_file_is_noticed() -> None:
    files = files_of("truncated")
    for file in files:
        how, seen = outcome({name: data for name, data in files.items() if name != file})
        assert how == ("told" if file == "10.index" else "damaged")  # nothing records the extent of the last segment
        assert seen == told("truncated")[: len(seen)]


def test_a_missing_segment_is_damage_at_its_first_offset() -> None:
    files = {name: data for name, data in files_of("truncated").items() if not name.startswith("8.")}
    log = open_laminarmq(stored(files))
    with pytest.raises(CorruptRecord, match="the next segment begins at 10") as caught:
        list(log.scan())
    assert caught.value.offset == 8
    assert [record.offset for record in log.scan(10)] == list(range(10, 16))


def test_neighbours_of_a_damaged_record_stay_readable() -> None:
    files = files_of("plain")
    files["0.store"] = files["0.store"][:20] + b"\xff" + files["0.store"][21:]
    log = open_laminarmq(stored(files))
    with pytest.raises(CorruptRecord, match="CRC-32") as caught:
        log.read(1)
    assert (caught.value.offset, caught.value.position) == (1, 9)
    assert [tuple(log.read(offset)) for offset in (0, 2)] == [told("plain")[0], told("plain")[2]]


def test_entries_in_each_others_place_are_noticed() -> None:
    files = files_of("plain")
    index = files["0.index"]
    files["0.index"] = index[:16] + index[32:48] + index[16:32] + index[48:]
    with pytest.raises(CorruptRecord, match="another offset"):
        open_laminarmq(stored(files)).read(0)


@pytest.mark.parametrize("body", [b"\x01", struct.pack("<I", 99), struct.pack("<I", 5) + bytes(5)])
def test_a_record_whose_checksum_holds_but_not_its_layout_is_damaged(body: bytes) -> None:
    entry = struct.pack("<QII", zlib.crc32(body), len(body), 0)
    files = {"3.index": struct.pack("<QQ", 3, 0) + entry + entry, "3.store": body}
    with pytest.raises(CorruptRecord):
        list(open_laminarmq(stored(files)).scan())


# --- what is no log of laminarmq's ------------------------------------------------------------------------------------


def test_a_place_where_nothing_is_is_not_found() -> None:
    with pytest.raises(LogNotFound):
        open_laminarmq(DATA / "none")


@pytest.mark.parametrize("names", [[], ["notes.txt"], ["0.index", "007.index"], ["00000000000000000000-1.store"]])
def test_a_directory_of_something_else_is_refused(names: list[str]) -> None:
    with pytest.raises(NotALog):
        open_laminarmq(stored(dict.fromkeys(names, b"")))


def test_other_files_beside_a_log_do_no_harm() -> None:
    assert records(open_laminarmq(stored({**files_of("plain"), "README": b"?"}))) == told("plain")


def test_nothing_is_written() -> None:
    files = files_of("killed-reopened")
    storage = stored(files)
    list(open_laminarmq(storage).scan())
    assert {name: storage.open(name).pread(10**6, 0) for name in storage.names()} == files


def test_a_store_that_goes_away_is_an_error_of_the_storage() -> None:
    storage = stored(files_of("plain"))
    log = open_laminarmq(storage)
    storage.unlink("0.store")
    with pytest.raises(StorageError):
        log.read(0)
