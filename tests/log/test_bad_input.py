"""What a call does not accept: one error of our own tree that names the thing, and nothing lost or changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog import LogConfig, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BINARY = pa.array([b"a", b"b"], pa.binary())
NEXT = 20

TYPES: dict[str, tuple[Callable[[Any], object], str]] = {
    "text as value": (lambda log: log.append("text"), r"value must be bytes or None, not str.*encode"),
    "a number as value": (lambda log: log.append(5), "value must be bytes or None, not int"),
    "a list as value": (lambda log: log.append([1, 2]), "value must be bytes or None, not list"),
    "text as key": (lambda log: log.append(b"v", key="k"), "key must be bytes or None, not str"),
    "a number as key": (lambda log: log.append(b"v", key=5), "key must be bytes or None, not int"),
    "a float as timestamp": (lambda log: log.append(b"v", timestamp=1.5), "timestamp must be int microseconds"),
    "text as timestamp": (lambda log: log.append(b"v", timestamp="now"), "timestamp must be int microseconds"),
    "a bool as timestamp": (lambda log: log.append(b"v", timestamp=True), "timestamp must be int microseconds"),
    "text as headers": (lambda log: log.append(b"v", headers="abc"), "headers must be pairs"),
    "bytes as headers": (lambda log: log.append(b"v", headers=b"abc"), "headers must be pairs"),
    "a number as headers": (lambda log: log.append(b"v", headers=5), "headers must be pairs"),
    "zero as headers": (lambda log: log.append(b"v", headers=0), "headers must be pairs"),
    "headers that are no pairs": (lambda log: log.append(b"v", headers=[("a",)]), "headers must be pairs"),
    "a header's key in bytes": (lambda log: log.append(b"v", headers=[(b"a", b"x")]), "header's key must be str"),
    "a header's value in text": (lambda log: log.append(b"v", headers=[("a", "x")]), "header 'a' must be bytes"),
    "text as expected offset": (lambda log: log.append(b"v", expected_offset="5"), "expected_offset must be an int"),
    "a float as expected offset": (
        lambda log: log.append(b"v", expected_offset=float(NEXT)),
        "expected_offset must be an int",
    ),
    "bytes as chunks": (lambda log: log.append_stream(b"abc"), "an iterable of bytes"),
    "text as chunks": (lambda log: log.append_stream("abc"), "an iterable of bytes"),
    "a number as chunks": (lambda log: log.append_stream(5), "an iterable of bytes"),
    "numbers as chunks": (lambda log: log.append_stream([1, 2]), "chunk of the stream must be bytes"),
    "a float as limit": (lambda log: log.append_stream([], limit=1.5), "limit must be an int"),
    "a stream with a key of text": (lambda log: log.append_stream([], key="k"), "key must be bytes"),
    "a stream with bad headers": (lambda log: log.append_stream([], headers=0), "headers must be pairs"),
    "a list as batch": (lambda log: log.append_batch([b"v"]), "list"),
    "a number as batch": (lambda log: log.append_batch(5), "int"),
    "numbers as values": (lambda log: log.append_batch(pa.table({"value": [1]})), "column 'value'"),
    "numbers as keys": (lambda log: log.append_batch(pa.table({"value": BINARY, "key": [1, 2]})), "column 'key'"),
    "text as times": (lambda log: log.append_batch(pa.table({"value": BINARY, "timestamp": ["a", "b"]})), "timestamp"),
    "numbers as headers": (lambda log: log.append_batch(pa.table({"value": BINARY, "headers": [1, 2]})), "headers"),
    "text to read": (lambda log: log.read("5"), "offset must be an int, not str"),
    "a float to read": (lambda log: log.read(5.0), "offset must be an int, not float"),
    "a bool to read": (lambda log: log.read(True), "offset must be an int, not bool"),
    "None to read": (lambda log: log.read(None), "offset must be an int, not NoneType"),
    "text to scan from": (lambda log: log.scan("5"), "start must be an int"),
    "a float to scan to": (lambda log: log.scan(0, 5.0), "stop must be an int"),
    "text for batches": (lambda log: log.batches("5"), "start must be an int"),
    "text for a table": (lambda log: log.to_arrow(0, "5"), "stop must be an int"),
    "text to truncate": (lambda log: log.truncate("5"), "offset must be an int"),
    "None to truncate": (lambda log: log.truncate(None), "offset must be an int"),
    "a float as time": (lambda log: log.offset_at(1.5), "timestamp must be int microseconds"),
    "text to tail": (lambda log: log.tail("5"), "start must be an int"),
    "text to follow": (lambda log: log.follow("5"), "start must be an int"),
    "text as timeout": (lambda log: log.follow(0, timeout="5"), "timeout must be"),
    "text to append at": (lambda log: log.append_at("5", Record(0, 0, None, b"v")), "offset must be an int"),
    "a tuple to append at": (lambda log: log.append_at(NEXT, (0, 0, None, b"v", ())), "requires a seglog.Record"),
    "a record of text": (lambda log: log.append_at(NEXT, Record(0, 0, None, "v")), "value must be bytes"),  # type: ignore[arg-type] # the wrong type is the test
}

VALUES: dict[str, tuple[Callable[[Any], object], str]] = {
    "a timestamp beyond 64 bit": (lambda log: log.append(b"v", timestamp=2**63), "does not fit 64 bits"),
    "a timestamp below 64 bit": (lambda log: log.append(b"v", timestamp=-(2**63) - 1), "does not fit 64 bits"),
    "a time beyond 64 bit": (lambda log: log.offset_at(2**63), "does not fit 64 bits"),
    "a header's key of 64 KiB": (lambda log: log.append(b"v", headers=[("k" * 65536, b"")]), "the maximum is 65535"),
    "a header's key that is no text": (lambda log: log.append(b"v", headers=[("\ud800", b"")]), "UTF-8"),
    "a negative limit": (lambda log: log.append_stream([], limit=-1), "limit is -1"),
    "no rows a batch": (lambda log: log.batches(max_records=0), "max_records is 0"),
    "half a row a batch": (lambda log: log.batches(max_records=1.5), "max_records is 1.5"),
    "unknown layout": (lambda log: log.to_arrow(values="text"), "values is 'text'"),
    "unknown layout of batches": (lambda log: log.batches(values=None), "values is None"),
    "a batch without value": (lambda log: log.append_batch(pa.table({"key": BINARY})), "value"),
    "a batch with a column of its own": (lambda log: log.append_batch(pa.table({"value": BINARY, "x": BINARY})), "x"),
}

OFFSETS: dict[str, Callable[[Any], object]] = {
    "reading before the start": lambda log: log.read(-1),
    "reading at the end": lambda log: log.read(NEXT),
    "reading far behind": lambda log: log.read(2**70),
    "scanning from behind the end": lambda log: log.scan(NEXT + 1),
    "scanning from before the start": lambda log: log.scan(-1),
    "scanning to before the start": lambda log: log.scan(0, -1),
    "batches from behind the end": lambda log: log.batches(NEXT + 1),
    "a table from behind the end": lambda log: log.to_arrow(NEXT + 1),
    "truncating behind the end": lambda log: log.truncate(NEXT + 1),
    "truncating before the start": lambda log: log.truncate(-1),
    "following from behind the end": lambda log: log.follow(NEXT + 1),
    "following from before the start": lambda log: log.tail(-1),
    "appending at the end of all offsets": lambda log: log.append_at(2**63 - 1, Record(0, 0, None, b"v")),
}

WRITING: dict[str, Callable[[Any], object]] = {
    "append": lambda log: log.append(b"v"),
    "append_stream": lambda log: log.append_stream([b"v"]),
    "append_batch": lambda log: log.append_batch(pa.table({"value": BINARY})),
    "append_at": lambda log: log.append_at(NEXT, Record(0, 0, None, b"v")),
    "truncate": lambda log: log.truncate(5),
    "expire": lambda log: log.expire(),
    "sync": lambda log: log.sync(),
    "repair": lambda log: log.repair(),
    "remove": lambda log: log.remove(),
}

READING: dict[str, Callable[[Any], object]] = {
    "read": lambda log: log.read(0),
    "scan": lambda log: log.scan(),
    "batches": lambda log: log.batches(),
    "to_arrow": lambda log: log.to_arrow(),
    "offset_at": lambda log: log.offset_at(0),
    "tail": lambda log: log.tail(),
    "follow": lambda log: log.follow(),
    "verify": lambda log: log.verify(),
    "lowest_offset": lambda log: log.lowest_offset,
    "next_offset": lambda log: log.next_offset,
    "durable_offset": lambda log: log.durable_offset,
    "size": lambda log: log.size,
    "segments": lambda log: log.segments,
    "config": lambda log: log.config,
    "len": len,
}


@pytest.fixture
def log(path: Any, contents: Any) -> Iterator[seglog.Log]:
    """Twenty records in four segments; afterwards not a byte is different, and it still takes appends."""
    with seglog.open(path, LogConfig(segment_bytes=512)) as log:
        for i in range(NEXT):
            log.append(b"%d" % i * 30, timestamp=i)
        before = contents(path)
        yield log
        assert contents(path) == before
        assert log.append(b"next") == NEXT
        assert [record.offset for record in log.scan()] == list(range(NEXT + 1))


@pytest.mark.parametrize("case", TYPES)
def test_a_wrong_type_is_refused_by_its_name(log: seglog.Log, case: str) -> None:
    call, message = TYPES[case]
    with pytest.raises(seglog.InvalidType, match=message) as caught:
        call(log)
    assert isinstance(caught.value, seglog.SeglogError)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("case", VALUES)
def test_a_wrong_value_is_refused_by_its_name(log: seglog.Log, case: str) -> None:
    call, message = VALUES[case]
    with pytest.raises(seglog.InvalidArgument, match=message) as caught:
        call(log)
    assert isinstance(caught.value, seglog.SeglogError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("case", OFFSETS)
def test_an_offset_outside_the_log_is_refused_with_the_range(log: seglog.Log, case: str) -> None:
    with pytest.raises(seglog.OffsetOutOfRange, match=f"holds 0 up to, not including, {NEXT}") as caught:
        OFFSETS[case](log)
    assert isinstance(caught.value, seglog.SeglogError)
    assert isinstance(caught.value, IndexError)
    assert (caught.value.lowest_offset, caught.value.next_offset) == (0, NEXT)


@pytest.mark.parametrize("call", [*WRITING, *READING])
def test_a_closed_log_says_so(path: Any, contents: Any, call: str) -> None:
    log = seglog.open(path)
    log.append(b"v")
    log.close()
    log.close()
    before = contents(path)
    with pytest.raises(seglog.LogClosed, match="is closed; open it again") as caught:
        (WRITING | READING)[call](log)
    assert isinstance(caught.value, ValueError)
    assert "closed" in repr(log)
    assert contents(path) == before


@pytest.mark.parametrize("call", [*WRITING, *READING])
def test_a_closed_reader_says_so(place: Any, call: str) -> None:
    with seglog.open(place) as log:
        log.append(b"v")
    reader = seglog.open(place, mode="r")
    reader.close()
    with pytest.raises(seglog.LogClosed, match="is closed; open it again"):
        (WRITING | READING)[call](reader)


@pytest.mark.parametrize("call", WRITING)
def test_a_reader_does_not_write(path: Any, contents: Any, call: str) -> None:
    with seglog.open(path) as log:
        log.append_batch(pa.table({"value": pa.array([b"v"] * NEXT, pa.binary())}))
    with seglog.open(path, mode="r") as reader:
        before = contents(path)
        with pytest.raises(seglog.LogReadOnly, match=f'{call} needs a log opened with mode="a"') as caught:
            WRITING[call](reader)
        assert isinstance(caught.value, OSError)
        assert contents(path) == before


def test_an_iterator_of_a_log_that_was_closed_since_goes_on_or_says_so(place: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512)) as log:
        for i in range(NEXT):
            log.append(b"%d" % i * 30)
        records = log.scan()
        assert next(records).offset == 0
    assert [record.offset for record in records] == list(range(1, NEXT))


def test_chunks_must_not_write_to_the_log_that_takes_them(place: Any) -> None:
    with seglog.open(place) as log:
        log.append(b"before")
        writing: list[Any] = [
            lambda: log.append(b"inside"),
            lambda: log.append_stream([b"inside"]),
            lambda: log.append_batch(pa.table({"value": BINARY})),
            lambda: log.truncate(0),
            log.expire,
        ]
        for call in writing:
            with pytest.raises(seglog.ReentrantCall, match="in the middle of another call"):
                log.append_stream(str(call()).encode() for _ in range(1))
        log.append_stream(log.read(0).value or b"" for _ in range(2))
        assert [record.value for record in log.scan()] == [b"before", b"beforebefore"]


def test_an_expected_offset_that_was_passed_is_a_conflict(place: Any) -> None:
    with seglog.open(place) as log:
        assert log.append(b"a", expected_offset=0) == 0
        for wrong in (0, 2, -1):
            with pytest.raises(seglog.OffsetConflict, match=f"expected offset {wrong}, but the log's next is 1") as e:
                log.append(b"b", expected_offset=wrong)
            assert isinstance(e.value, IndexError)
            assert e.value.next_offset == 1
        assert log.append(b"b", expected_offset=1) == 1
        assert [record.value for record in log.scan()] == [b"a", b"b"]


def test_a_header_key_of_a_subclass_of_str_is_stored_as_its_text(place: Any) -> None:
    class Odd(str):
        def encode(self, *_: object) -> bytes:
            return b"\xff"

    with seglog.open(place) as log:
        log.append(b"v", headers=[(Odd("name"), b"x")])
        assert log.read(0).headers == (("name", b"x"),)
        assert log.verify().ok
