"""When a copy that reports to a writer last had every record, by its reports, on a clock that measures durations."""

from __future__ import annotations

from seglog.log.copies import Copies
from seglog.log.pins import Pin
from seglog.storage import MemoryStorage


class Reported:
    """The copies of a log, which report at times that a test chooses. Their pins have other times."""

    def __init__(self) -> None:
        self.now = 0
        self.copies = Copies(MemoryStorage(), lambda: self.now)

    def report(self, offset: int, end: int, at: int) -> None:
        self.now = at
        self.copies.report("one", Pin(offset, 0, "", 10**18 - at), end)


def test_a_copy_is_complete_when_it_reports_the_end() -> None:
    reported = Reported()
    assert reported.copies.complete_at("one") is None
    reported.report(5, 10, at=100)
    assert reported.copies.complete_at("one") is None
    reported.report(10, 10, at=200)
    assert reported.copies.complete_at("one") == 200


def test_a_copy_of_a_growing_log_was_complete_when_it_asked_for_what_it_reports_now() -> None:
    reported = Reported()
    reported.report(5, 10, at=100)
    reported.report(10, 20, at=200)
    assert reported.copies.complete_at("one") == 100
    reported.report(15, 40, at=300)  # it falls behind
    reported.report(20, 60, at=400)
    assert reported.copies.complete_at("one") == 100


def test_a_copy_whose_pin_was_removed_was_never_complete() -> None:
    reported = Reported()
    reported.report(10, 10, at=200)
    reported.copies.forget("one")
    assert reported.copies.complete_at("one") is None
