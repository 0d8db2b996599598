"""A warning that comes again and again is logged once in some seconds, with the number of those left out."""

from __future__ import annotations

import logging

import pytest

from seglog.server.runtime.repeated_warnings import RepeatedWarnings


@pytest.fixture
def logged(caplog):
    """Return a log, and a call that returns what was logged since the last one."""
    log = logging.getLogger("seglog.test")

    def new():
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    return log, new


def test_the_first_of_a_kind_is_logged_at_once_and_then_one_in_ten_seconds(logged):
    log, new = logged
    now = 100.0
    warn = RepeatedWarnings(log, clock=lambda: now)
    for number in range(94):
        warn("long", f"request {number} is too long")
        now += 0.1
    assert new() == ["request 0 is too long"]
    warn("slow", "a request is slow")
    assert new() == ["a request is slow"], "of another kind"
    now = 110.0
    warn("long", "request 94 is too long")
    assert new() == ["request 94 is too long (and 93 more in the last 10 s)"]
    now = 150.0
    warn("long", "request 95 is too long")
    assert new() == ["request 95 is too long"], "none was left out"
