"""The bytes of `.groups`: what goes in comes out, and nothing else is ever taken for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog import CorruptLog
from seglog.topic.groups.records import GroupRecord, Note, OffsetRecord, decode, encode
from seglog.topic.groups.state import Crew, Enrolled, Move

NAMES = st.text("abcXYZ0._-", min_size=1, max_size=9)
CREW = Crew(
    3,
    {"a": Enrolled(("orders", "users"), 30.0, False), "b": Enrolled(("orders",), 1.5, True)},
    {("orders", 0): "a", ("orders", 1): "b", ("users", 0): "a"},
    {("orders", 0): Move("b", 3), ("users", 0): Move(None, 2)},
)


KNOWN = st.sampled_from([(None, 0), ("5f0c9a61be27d804", 3)])
NOTES = st.builds(Note, st.text(max_size=9), st.none() | st.integers(-1, 2**31 - 1))


@given(NAMES, NAMES, st.integers(0, 9999), st.none() | st.integers(0, 2**63 - 1), KNOWN, NOTES, st.text(max_size=9))
def test_offsets_come_back(group, topic, partition, offset, known, note, payer):
    entry = OffsetRecord(group, (topic, partition), offset, *(() if offset is None else (*known, *note, payer)))
    assert decode(*encode(entry)) == entry


@pytest.mark.parametrize("crew", [CREW, Crew(), None])
def test_groups_come_back(crew):
    assert decode(*encode(GroupRecord("billing", crew))) == GroupRecord("billing", crew)


def test_who_pays_is_stored_with_an_offset_and_a_member_and_no_other_type_is_taken_for_it():
    offset = OffsetRecord("billing", ("orders", 0), 12, payer="5f0c9a61be27d804")
    crew = Crew(1, {"a": Enrolled(("t",), 1.0, False, "5f0c9a61be27d804")}, {("t", 0): "a"})
    assert encode(offset)[1] == b'{"offset":12,"payer":"5f0c9a61be27d804"}'
    for entry in (offset, GroupRecord("billing", crew)):
        key, value = encode(entry)
        assert decode(key, value) == entry
        with pytest.raises(ValueError, match="the key"):
            decode(key, value.replace(b'"5f0c9a61be27d804"', b"7"))


def test_the_bytes_are_these():
    assert encode(OffsetRecord("billing", ("orders", 0), 12)) == (b'["offset","billing","orders",0]', b'{"offset":12}')
    assert encode(OffsetRecord("billing", ("orders", 0), None)) == (b'["offset","billing","orders",0]', None)
    key, value = encode(GroupRecord("billing", CREW))
    assert key == b'["group","billing"]'
    assert value == (
        b'{"generation":3,"members":{'
        b'"a":{"topics":["orders","users"],"session_timeout":30.0,"local":false,"owns":{"orders":[0],"users":[0]}},'
        b'"b":{"topics":["orders"],"session_timeout":1.5,"local":true,"owns":{"orders":[1]}}},'
        b'"moving":[["orders",0,"b",3],["users",0,null,2]]}'
    )


MEMBER = b'{"topics":["t"],"session_timeout":1,"local":false,"owns":{"t":[0]}}'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"", b"{}"),
        (b"\xff", b"{}"),
        (b'"offset"', b"{}"),
        (b'["offset","g","t"]', b'{"offset":1}'),
        (b'["offset","g","t",0]', b"{}"),
        (b'["offset","g","t",0]', b'{"offset":-1}'),
        (b'["offset","g","t",0]', b'{"offset":true}'),
        (b'["offset","g","t",0]', b'{"offset":9223372036854775808}'),
        (b'["offset","g","t","0"]', b'{"offset":1}'),
        (b'["offset","g","t",0]', b""),
        (b'["group","g"]', b"[]"),
        (b'["group","g"]', b'{"generation":1,"members":{"a":' + MEMBER + b',"b":' + MEMBER + b'},"moving":[]}'),
        (b'["group","g"]', b'{"generation":1,"members":{"a":' + MEMBER + b'},"moving":[["t",1,"a",1]]}'),
        (b'["group","g"]', b'{"generation":1,"members":{"a":' + MEMBER + b'},"moving":[["t",0,"x",1]]}'),
        (b'["group","g"]', b'{"generation":1,"members":{"a":{}},"moving":[]}'),
        (b'["later","g"]', b"{}"),
        (b"[" * 3000, b"{}"),
        (b'["group","g"]', b'{"generation":1,"members":{"a":' + MEMBER.replace(b"1", b"NaN", 1) + b'},"moving":[]}'),
        (
            b'["group","g"]',
            b'{"generation":1,"members":{"a":' + MEMBER.replace(b"1", b"9" * 400, 1) + b'},"moving":[]}',
        ),
    ],
)
def test_what_is_damaged_or_unknown_is_named_when_the_log_is_opened(hall, key, value):
    with pytest.raises(ValueError, match="the key"):
        decode(key, value)
    if key is not None:
        hall.groups.commit("billing", {"orders": {0: 5}})
        hall.log.append(value, key=key)
        with pytest.raises(CorruptLog, match="offset 1 is not a record of consumer groups"):
            hall.reopen()
