"""What is kept for callers: none of them takes the place of the others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seglog.server.runtime.shares import Shares

callers = st.sampled_from("abcdef")


@given(st.lists(st.tuples(callers, st.integers(1, 4000)), max_size=60))
def test_a_caller_that_has_nothing_finds_room_whatever_five_others_have_taken(wanted):
    shares = Shares(10_000)
    for caller, more in wanted:
        if caller != "f" and shares.fits(caller, more):
            shares.change(caller, more)
    assert shares.held == sum(map(shares.of, "abcde")) < shares.most
    assert shares.fits("f", shares.most // 2**7)


def test_a_caller_that_is_alone_gets_three_quarters_and_the_next_one_half_of_what_it_leaves():
    shares = Shares(1000)
    assert shares.fits("one", 750)
    assert not shares.fits("one", 751)
    shares.change("one", 750)
    assert not shares.fits("one", 1)
    assert shares.fits("one", -1)
    assert shares.fits("two", 125)
    assert not shares.fits("two", 126)
    shares.change("one", -750)
    assert shares.held == shares.of("one") == 0
    assert shares.fits("two", 750)
