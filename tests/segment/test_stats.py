"""Two speeds, one answer: the walk in Python and the kernels see the same records, entries, marks and ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seglog.format.index import MarkBuilder
from seglog.segment import stats as surveys
from seglog.segment.stats import Block, Tally, survey
from seglog.segment.walk import StoreWalk

Harm = tuple[str, float, int]
HARM = st.none() | st.tuples(st.sampled_from(["flip", "cut", "zeros", "garbage"]), st.floats(0, 1), st.integers(0, 7))


def harmed(made: Any, harm: Harm | None) -> None:
    """Damage the store somewhere between its header and its end."""
    if harm is None or made.end == 64:
        return
    kind, where, bit = harm
    position = 64 + int(where * (made.end - 65))
    if kind == "flip":
        made.store.pwrite(bytes([made.store.pread(1, position)[0] ^ 1 << bit]), position)
    elif kind == "cut":
        made.store.truncate(position)
    elif kind == "zeros":
        made.store.pwrite(bytes(made.end - position), position)
    else:
        made.store.pwrite(b"\xa5" * min(9, made.end - position), position)


def joined(blocks: list[Block]) -> dict[str, Any]:
    """What blocks add up to; texts of reasons may differ."""
    tally = Tally(64)
    for block in blocks:
        tally.absorb(block)
    return {
        "records": sum(block.records for block in blocks),
        "position": blocks[-1].position,
        "next_offset": blocks[-1].next_offset,
        "entries": b"".join(block.entries for block in blocks),
        "marks": bytes(tally.marks.marks),
        "state": tally.marks.state,
        "figures": (tally.tombstones, tally.min_timestamp, tally.max_timestamp),
        "ended": blocks[-1].reason is not None,
        "reasons before the last": [block.reason for block in blocks[:-1] if block.reason is not None],
    }


def both(made: Any, position: int, expected: int, end: int) -> tuple[dict[str, Any], dict[str, Any]]:
    arguments = (made.store, made.rules, position, end, expected, MarkBuilder(64))
    scanned = joined(list(surveys._by_kernel(*arguments)))
    assert joined(list(surveys._by_windows(*arguments))) == scanned, "reading finds what mapping does"
    return joined(list(surveys._by_walk(*arguments))), scanned


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "with gaps"])
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_walk_and_kernel_agree_on_any_store(workshop: Any, dense: bool, data: st.DataObject) -> None:
    made = workshop.store(data.draw(workshop.records(dense=dense)), dense=dense)
    start = data.draw(st.integers(0, len(made.records)))
    position = [*made.positions, made.end][start]
    expected = made.records[start].offset if start < len(made.records) else made.rules.base_offset + 10_000
    harmed(made, data.draw(HARM))
    end = made.end + data.draw(st.sampled_from([0, 0, 40]))  # beyond the file: as after a cut
    walk, kernel = both(made, position, expected, end)
    assert walk == kernel


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "with gaps"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_sound_store_is_surveyed_to_its_end(workshop: Any, dense: bool, data: st.DataObject) -> None:
    records = data.draw(workshop.records(dense=dense))
    made = workshop.store(records, dense=dense)
    found, _ = both(made, 64, made.rules.base_offset, made.end)
    assert (found["records"], found["position"], found["ended"]) == (len(records), made.end, False)
    assert found["next_offset"] == (records[-1].offset + 1 if records else made.rules.base_offset)
    times = [record.timestamp for record in records]
    nulls = sum(record.value is None for record in records)
    assert found["figures"] == (nulls, min(times, default=None), max(times, default=None))
    walk = StoreWalk(made.store, made.rules, position=64, end=made.end, expected=made.rules.base_offset)
    assert [record for record, _, _ in walk] == records


def test_long_stores_give_blocks_that_go_on_from_one_another(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from seglog.record import Record  # noqa: PLC0415 - of this test alone

    monkeypatch.setattr(surveys, "WALK_RECORDS", 10)
    made = workshop.store([Record(1000 + number, number, None, b"x" * number) for number in range(95)])
    blocks = list(surveys._by_walk(made.store, made.rules, 64, made.end, 1000, MarkBuilder(64)))
    assert len(blocks) == 10
    walk, kernel = both(made, 64, 1000, made.end)
    assert walk == kernel == joined(blocks)


def test_small_stretches_load_no_compiler_and_long_ones_take_the_kernel(
    workshop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    for how in ("_by_walk", "_by_kernel"):
        monkeypatch.setattr(surveys, how, lambda *_, how=how: iter([taken.append(how)]))
    made = workshop.store([])
    for length in (0, surveys.KERNEL_FROM_BYTES - 1, surveys.KERNEL_FROM_BYTES):
        list(survey(made.store, made.rules, position=64, end=64 + length, expected=1000, marks=MarkBuilder(64)))
    assert taken == ["_by_walk", "_by_walk", "_by_kernel"]


def test_a_record_longer_than_every_chunk_is_walked(workshop: Any) -> None:
    from seglog.record import Record  # noqa: PLC0415 - of this test alone

    values = [b"a", b"b" * 3_000_000, b"c", b"d" * 20_000, b"e"]
    made = workshop.store([Record(1000 + number, 0, None, value) for number, value in enumerate(values)])
    walk = StoreWalk(made.store, made.rules, position=64, end=made.end, expected=1000)
    assert [record.value for record, _, _ in walk] == values
    assert walk.reason is None


def test_a_walk_says_where_and_why_it_stopped(workshop: Any) -> None:
    from seglog.record import Record  # noqa: PLC0415 - of this test alone

    made = workshop.store([Record(1000 + number, 0, None, b"value") for number in range(5)])
    made.store.pwrite(b"!", made.positions[3] + 33)
    walk = StoreWalk(made.store, made.rules, position=64, end=made.end, expected=1000)
    assert len(list(walk)) == 3
    assert (walk.position, walk.expected) == (made.positions[3], 1003)
    assert walk.reason == "its checksum does not match"
    assert list(walk) == [], "and it never skips"
