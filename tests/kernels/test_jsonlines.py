"""The compiled reader of lines takes exactly what `decode_record` takes, and leaves the rest to it."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.errors import InvalidArgument
from seglog.format.lines import decode_record
from seglog.server.http import json_lines as reading
from seglog.server.http.json_lines import table_of_lines
from seglog.server.settings import Limits

LIMITS = Limits()

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
coded = st.binary(max_size=20).map(lambda data: {"base64": base64.b64encode(data).decode()})
value = st.one_of(st.none(), text, coded)
header = st.fixed_dictionaries({"key": text, "value": value})
record = st.fixed_dictionaries(
    {"value": value},
    optional={
        "key": value,
        "timestamp": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 2)),
        "headers": st.one_of(st.none(), st.lists(header, max_size=4)),
        "offset": st.one_of(st.none(), st.integers(), st.floats(), text),
    },
)
line = st.builds(
    lambda fields, ascii_only, spaced: json.dumps(
        fields, ensure_ascii=ascii_only, separators=(", ", " : ") if spaced else (",", ":")
    ).encode(),
    record,
    st.booleans(),
    st.booleans(),
)
mutated = st.builds(
    lambda data, at, byte: data[: at % (len(data) + 1)] + bytes([byte]) + data[at % (len(data) + 1) + 1 :],
    line,
    st.integers(0, 10_000),
    st.sampled_from(b'"\\{}[],:ue0\n \xff\xc3\xed='),
)


def plainly(body):
    """Return what `decode_record` makes of a body, or the error's text."""
    rows = []
    try:
        for number, one in enumerate(body.split(b"\n"), 1):
            if one.strip():
                entry = decode_record(one, number)
                headers = [{"key": key, "value": value} for key, value in entry.headers]
                rows.append((entry.value, entry.key, entry.timestamp, headers))
    except InvalidArgument as error:
        return str(error)
    return rows


def compiled(body):
    try:
        table = table_of_lines(memoryview(body), LIMITS)
    except InvalidArgument as error:
        return str(error)
    table.validate(full=True)
    return [tuple(row.values()) for row in table.to_pylist()]


@given(st.lists(st.one_of(line, line, mutated), max_size=6))
def test_it_takes_what_plain_python_takes_and_refuses_the_rest_in_its_words(lines):
    body = b"\n".join(lines)
    assert compiled(body) == plainly(body)


PLAIN = [
    b'{"value": "", "key": "k", "timestamp": -12, "headers": [{"value": null, "key": ""}], "offset": 9}',
    b' \t{ "value" : { "base64" : "AAE=" } }\r',
    b'{"value":"\\ud83d\\ude00\\u00e9\\n\\/"}',
    '{"value":"\U0001f600é"}'.encode(),
]
RARE = [b'{"value":"a","value":"b"}', b'{"value":"","offset":[1]}', '{"value":"a"}'.encode("utf-16")]


@pytest.mark.parametrize("body", [*PLAIN, *RARE])
def test_lines_of_every_form_are_taken(body):
    assert compiled(body) == plainly(body) != []


@pytest.mark.parametrize("body", PLAIN)
def test_a_line_of_the_usual_form_is_left_to_no_other_code(body, monkeypatch):
    monkeypatch.setattr(reading, "decode_record", None)
    assert len(compiled(body)) == 1


def test_a_long_line_that_is_odd_and_one_odd_line_too_many_are_refused():
    padding = b" " * reading.ODD_BYTES
    assert "line 2 is not a record in the usual form" in compiled(
        b'{"value":""}\n{"value":"","value":""' + padding + b"}"
    )
    many = RARE[0] + b"\n"
    assert len(compiled(many * reading.ODD_LINES)) == reading.ODD_LINES
    assert "in a rare form of JSON" in compiled(many * (reading.ODD_LINES + 1))
