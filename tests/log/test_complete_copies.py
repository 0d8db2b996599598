"""When a copy that reports to a writer last had every record, by its reports."""

from __future__ import annotations

from seglog.log.copies import Copies
from seglog.log.pins import Pin
from seglog.storage import MemoryStorage


def test_a_copy_is_complete_when_it_reports_the_end() -> None:
    copies = Copies(MemoryStorage())
    assert copies.complete_at("one") is None
    copies.report("one", Pin(5, 0, "", 100), 10)
    assert copies.complete_at("one") is None
    copies.report("one", Pin(10, 0, "", 200), 10)
    assert copies.complete_at("one") == 200


def test_a_copy_of_a_growing_log_was_complete_when_it_asked_for_what_it_reports_now() -> None:
    copies = Copies(MemoryStorage())
    copies.report("one", Pin(5, 0, "", 100), 10)
    copies.report("one", Pin(10, 0, "", 200), 20)
    assert copies.complete_at("one") == 100
    copies.report("one", Pin(15, 0, "", 300), 40)  # it falls behind
    copies.report("one", Pin(20, 0, "", 400), 60)
    assert copies.complete_at("one") == 100


def test_a_copy_whose_pin_was_removed_was_never_complete() -> None:
    copies = Copies(MemoryStorage())
    copies.report("one", Pin(10, 0, "", 200), 10)
    copies.forget("one")
    assert copies.complete_at("one") is None
