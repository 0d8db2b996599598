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
    assert shares.fits("f", shares.most // 2**6)


def test_a_caller_gets_half_of_what_the_others_leave_and_room_again_when_they_release_it():
    shares = Shares(1000)
    assert shares.fits("one", 500)
    assert not shares.fits("one", 501)
    shares.change("one", 500)
    assert not shares.fits("one", 1)
    assert shares.fits("one", -1)
    assert shares.fits("two", 250)
    assert not shares.fits("two", 251)
    shares.change("one", -500)
    assert shares.held == shares.of("one") == 0
    assert shares.fits("two", 500)
