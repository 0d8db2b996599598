"""Reading piece by piece: the pieces are the log, each within its limits, by records and in Arrow alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seglog
from seglog.record import HEADER_COST, Record
from seglog.topic.fetch import FetchedRecords, fetch_batches, fetch_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MANY = 10**9


def by_batches(log: seglog.Log, start: int, stop: int | None = None, **limits: int) -> FetchedRecords:
    """As `fetch_records`, but read in Arrow."""
    found = fetch_batches(log, start, stop, **limits)
    assert all(batch.num_rows for batch in found.batches)
    columns = [row for batch in found.batches for row in batch.to_pylist()]
    records = [
        Record(
            row["offset"],
            int(row["timestamp"].timestamp() * 1_000_000),
            row["key"],
            row["value"],
            tuple((pair["key"], pair["value"]) for pair in row["headers"]),
        )
        for row in columns
    ]
    return FetchedRecords(records, found.next_offset)


@pytest.fixture(params=[fetch_records, by_batches], ids=["records", "arrow"])
def fetch(request: Any) -> Callable[..., FetchedRecords]:
    return request.param  # type: ignore[no-any-return] # one of the two above


@pytest.fixture
def log() -> Iterator[seglog.Log]:
    with seglog.open(seglog.MemoryStorage(), seglog.LogConfig(segment_bytes=1024)) as opened:
        yield opened


def size(record: Record) -> int:
    headers = sum(HEADER_COST + len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def offsets(found: FetchedRecords) -> list[int]:
    return [record.offset for record in found.records]


def test_the_first_record_comes_whatever_its_size(log: seglog.Log, fetch: Any) -> None:
    for _ in range(3):
        log.append(b"v" * 500)
    found = fetch(log, 1, max_records=MANY, max_bytes=1)
    assert (offsets(found), found.next_offset) == ([1], 2)


def test_keys_values_and_headers_count(log: seglog.Log, fetch: Any) -> None:
    for _ in range(3):
        log.append(b"vvv", key=b"kk", headers=[("name", b"12345"), ("null", None)])  # 18 bytes
    size = 18 + 2 * HEADER_COST
    assert offsets(fetch(log, 0, max_records=MANY, max_bytes=2 * size)) == [0, 1]
    assert offsets(fetch(log, 0, max_records=MANY, max_bytes=2 * size - 1)) == [0]


def test_records_count(log: seglog.Log, fetch: Any) -> None:
    for _ in range(50):
        log.append(b"v" * 40)
    found = fetch(log, 3, max_records=30, max_bytes=MANY)
    assert (offsets(found), found.next_offset) == (list(range(3, 33)), 33)


def test_stop_is_not_passed_and_the_end_is_a_good_place_to_ask(log: seglog.Log, fetch: Any) -> None:
    for _ in range(5):
        log.append(b"v")
    assert offsets(fetch(log, 1, 3, max_records=MANY, max_bytes=MANY)) == [1, 2]
    assert fetch(log, 5, max_records=1, max_bytes=1) == ([], 5)
    assert fetch(log, 3, 2, max_records=1, max_bytes=1) == ([], 3)
    assert fetch(log, 3, 99, max_records=MANY, max_bytes=MANY).next_offset == 5


def test_a_start_that_retention_took_or_that_never_was_is_an_error(fetch: Any) -> None:
    config = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=512))
    with seglog.open(seglog.MemoryStorage(), config) as log:
        for _ in range(60):
            log.append(b"v")
        for start in (0, log.lowest_offset - 1, 61, -1):
            with pytest.raises(seglog.OffsetOutOfRange) as caught:
                fetch(log, start, max_records=1, max_bytes=1)
            assert (caught.value.lowest_offset, caught.value.next_offset) == (log.lowest_offset, 60)


@pytest.mark.parametrize("limits", [{"max_records": 0, "max_bytes": 1}, {"max_records": 1, "max_bytes": 0}])
def test_limits_below_one_are_refused(log: seglog.Log, fetch: Any, limits: Any) -> None:
    with pytest.raises(seglog.InvalidArgument, match="at least 1"):
        fetch(log, 0, **limits)


def test_gaps_of_a_compaction_are_passed_over_and_the_next_position_is_behind_them(
    clock: Any, shop_at: Any, fetch: Any
) -> None:
    shop = shop_at(seglog.MemoryStorage())
    with shop.open() as log:
        shop.put(log, "a b a b c a b | a b |")
        log.compact()
        assert shop.content(log) == "c@4 a@7 b@8"
        assert fetch(log, 0, 4, max_records=9, max_bytes=MANY) == ([], 4)
        found = fetch(log, 1, max_records=1, max_bytes=MANY)
        assert (offsets(found), found.next_offset) == ([4], 5)
        found = fetch(log, 0, 7, max_records=9, max_bytes=MANY)
        assert (offsets(found), found.next_offset) == ([4], 7)


def test_what_stands_before_damage_is_given_out_and_the_damage_is_told_then(tmp_path: Path, fetch: Any) -> None:
    with seglog.open(tmp_path / "log", seglog.LogConfig(segment_bytes=1024)) as log:
        for number in range(40):
            log.append(b"value %02d" % number)
        log.sync()
        store = tmp_path / "log" / log.segments[0].name
        data = store.read_bytes()
        store.write_bytes(data.replace(b"value 05", b"VALUE 05"))
    with seglog.open(tmp_path / "log") as log:
        found = fetch(log, 2, max_records=MANY, max_bytes=MANY)
        assert (offsets(found), found.next_offset) == ([2, 3, 4], 5)
        with pytest.raises(seglog.CorruptRecord):
            fetch(log, 5, max_records=MANY, max_bytes=MANY)


def test_not_much_more_is_decoded_than_is_given_out(log: seglog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    from seglog.log.view import View  # noqa: PLC0415 - watched here

    for _ in range(1000):
        log.append(b"v" * 100)
    decoded, inner = 0, View.batches

    def watched(*arguments: Any, **named: Any) -> Iterator[Any]:
        nonlocal decoded
        for batch in inner(*arguments, **named):
            decoded += batch.num_rows
            yield batch

    monkeypatch.setattr(View, "batches", watched)
    found = fetch_batches(log, 0, max_records=MANY, max_bytes=2000)
    assert sum(batch.num_rows for batch in found.batches) == 20
    assert decoded < 40


HEADERS = st.lists(st.tuples(st.sampled_from(["a", "bc"]), st.none() | st.binary(max_size=9)), max_size=3)
RECORDS = st.lists(
    st.tuples(st.none() | st.binary(max_size=5), st.none() | st.binary(max_size=300), HEADERS), max_size=30
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=RECORDS, max_records=st.integers(1, 8), max_bytes=st.integers(1, 900), data=st.data())
def test_the_pieces_of_any_log_are_the_log(
    fetch: Any, rows: list[Any], max_records: int, max_bytes: int, data: st.DataObject
) -> None:
    with seglog.open(seglog.MemoryStorage(), seglog.LogConfig(segment_bytes=512)) as log:
        for key, value, headers in rows:
            log.append(value, key=key, timestamp=1_700_000_000_000_000, headers=headers)
        position, found = 0, []
        while position < len(rows):
            piece = fetch(log, position, max_records=max_records, max_bytes=max_bytes)
            assert 0 < len(piece.records) <= max_records
            assert sum(map(size, piece.records)) <= max_bytes or len(piece.records) == 1
            position = piece.next_offset
            full = len(piece.records) == max_records or position == len(rows)
            assert full or sum(map(size, piece.records)) + size(log.read(position)) > max_bytes
            found += piece.records
        assert found == list(log.scan())
