"""The epoch of a backup that becomes a log is later, and of the same term."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seglog.format.cuts import COUNTED_BITS, TERM_BITS, first_epoch, separate_epoch


@given(st.integers(0, 2**20), st.integers(0, 2**TERM_BITS - 2))
def test_it_is_later_in_the_same_term(term, rest):
    epoch = term << TERM_BITS | rest
    assert (found := separate_epoch(epoch)) > epoch
    assert found >> TERM_BITS == term


@given(st.integers(0, 2**20))
def test_four_backups_of_each_other_never_count_like_their_original(term):
    epoch = first_epoch(term)
    for _ in range(4):
        found = separate_epoch(epoch)
        assert found >> COUNTED_BITS > epoch >> COUNTED_BITS
        assert found >> TERM_BITS == term
        epoch = found
