from __future__ import annotations

import io
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seglog.errors import InvalidArgument
from seglog.format import lines
from seglog.record import Record

data = st.none() | st.binary() | st.text().map(str.encode)
names = st.text(st.characters(exclude_categories=["Cs"]))
RECORDS = st.builds(
    Record,
    offset=st.integers(0, 2**63 - 1),
    timestamp=st.integers(-(2**63), 2**63 - 1),
    key=data,
    value=data,
    headers=st.lists(st.tuples(names, data), max_size=3).map(tuple),
)


@given(RECORDS)
@example(Record(0, 0, b"", bytes(range(256)), (("", None), ("", b"\xff"))))
@example(Record(0, 0, None, b'{"base64": "AA=="}'))
def test_a_record_goes_through_ndjson_unchanged(record: Record) -> None:
    line = lines.encode_record(record)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert lines.decode_record(line, 1) == record[1:]
    assert json.loads(line)["offset"] == record.offset


def test_text_stays_readable_and_bytes_say_that_they_are_none() -> None:
    line = json.loads(lines.encode_record(Record(3, 7, "ключ".encode(), b"\xff", (("h", None),))))
    assert line == {
        "offset": 3,
        "timestamp": 7,
        "key": "ключ",
        "value": {"base64": "/w=="},
        "headers": [{"key": "h", "value": None}],
    }


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "line 9 is not JSON"),
        (b"\xff", "line 9 is not JSON"),
        (b"[" * 100_000, "line 9 is not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", 'has no "value"'),
        (b'{"value": 5}', "value must be text"),
        (b'{"value": {"base64": "?"}}', "line 9: value"),
        (b'{"value": {"base64": "AA==", "x": 1}}', "value must be text"),
        (b'{"value": "\\ud800"}', "line 9: value"),
        (b'{"value": "", "vlaue": ""}', "unknown fields ['vlaue']"),
        (b'{"value": "", "timestamp": 1.5}', "line 9: timestamp must be int"),
        (b'{"value": "", "timestamp": 9223372036854775808}', "does not fit 64 bits"),
        (b'{"value": "", "headers": {"a": "b"}}', "headers must be a list"),
        (b'{"value": "", "headers": [{"key": "a"}]}', "a header must be"),
        (b'{"value": "", "headers": [{"key": "\\ud800", "value": null}]}', "a header's key"),
    ],
)
def test_a_line_that_is_no_record_is_refused_with_its_number(line: bytes, why: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        lines.decode_record(line, 9)
    assert why in str(caught.value)


class _Trickle(io.BytesIO):
    """A stream that gives a few bytes at a time, as a pipe may."""

    step = 1

    def read1(self, size: int | None = -1) -> bytes:
        return self.read(self.step)


@given(st.lists(st.binary(max_size=5)), st.sampled_from([b"\n", b"\0", b"ab", b"aab"]), st.integers(1, 7))
def test_a_stream_is_split_however_it_arrives(pieces: list[bytes], delimiter: bytes, step: int) -> None:
    stream = _Trickle(delimiter.join(pieces))
    stream.step = step
    whole = delimiter.join(pieces).split(delimiter)
    expected = whole[:-1] if whole[-1] == b"" else whole
    assert list(lines.split(stream, delimiter)) == expected


def test_an_empty_line_counts_but_nothing_behind_the_last_newline_does() -> None:
    assert list(lines.split(io.BytesIO(b"a\n\nb\n"), b"\n")) == [b"a", b"", b"b"]
    assert list(lines.split(io.BytesIO(b""), b"\n")) == []


def test_a_line_without_its_key_separator_is_refused() -> None:
    assert lines.decode_line(b"k\tv\tw", 1, b"\t") == (None, b"k", b"v\tw", ())
    with pytest.raises(InvalidArgument, match="line 4"):
        lines.decode_line(b"kv", 4, b"\t")
