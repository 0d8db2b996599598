"""Several threads, one answer: the contents of a long range do not depend on what an index says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seglog.format.index import DENSE_ENTRY, MarkBuilder, encode_dense_header
from seglog.parallel.calls import Ahead
from seglog.segment import parallel_stats
from seglog.segment import stats as surveys
from seglog.segment.index_rebuild import OldIndex
from seglog.segment.parallel_stats import survey_spread
from tests.segment.test_stats import HARM, harmed, joined

INTERVAL = 64


def old_index(made: Any, data: bytes) -> OldIndex:
    """An index file that holds these bytes."""
    made.storage.create("found.index").pwrite(data, 0)
    return OldIndex(made.storage, "found.index")


def index_of(made: Any) -> bytes:
    """The dense index of a store; checksums are not looked at by who takes stock."""
    ends = [*made.positions[1:], made.end]
    entries = [DENSE_ENTRY.pack(0, end - start, start) for start, end in zip(made.positions, ends, strict=False)]
    return encode_dense_header(made.rules.base_offset, len(entries), made.rules.salt) + b"".join(entries)


@pytest.fixture(autouse=True)
def _short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_stats, "STRETCH_BYTES", 100)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_threads_find_what_one_would_have_found_whatever_index_they_are_given(
    workshop: Any, data: st.DataObject
) -> None:
    made = workshop.store(data.draw(workshop.records(dense=True)))
    index = bytearray(index_of(made))
    for at, word in data.draw(st.lists(st.tuples(st.integers(4, 200), st.integers(0, 300)), max_size=3)):
        index[at * 4 : at * 4 + 4] = word.to_bytes(4, "little")  # a length or a position, among others
    del index[data.draw(st.integers(0, len(index))) if data.draw(st.booleans()) else len(index) :]
    harmed(made, data.draw(HARM))
    span = {"position": 64, "end": made.end, "expected": made.rules.base_offset, "marks": MarkBuilder(INTERVAL)}
    one = list(surveys.survey(made.store, made.rules, **span))
    several = list(survey_spread(made.store, made.rules, old_index(made, bytes(index)), **span))
    assert joined(several) == joined(one)


def test_a_sound_index_has_all_of_it_scanned_side_by_side(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from seglog.record import Record  # noqa: PLC0415 - of this test alone

    launched: list[object] = []
    launch = Ahead.launch
    monkeypatch.setattr(Ahead, "launch", lambda self, call, **how: (launched.append(call), launch(self, call, **how)))
    made = workshop.store([Record(1000 + number, number % 7, b"k", b"x" * 50) for number in range(95)])
    span = {"position": 64, "end": made.end, "expected": 1000, "marks": MarkBuilder(INTERVAL)}
    blocks = list(survey_spread(made.store, made.rules, old_index(made, index_of(made)), **span))
    assert [block.records for block in blocks[:-1]] == [1] * len(launched), "every stretch was believed"
    assert len(launched) == 94
    assert joined(blocks) == joined(list(surveys.survey(made.store, made.rules, **span)))
