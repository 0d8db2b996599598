"""Searching the history of a topic, links to records, and moving a group: in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

import seglog
from tests.console.conftest import BEGIN, SECOND, Console, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A topic of three partitions whose records interleave in time, one with gaps, and a group."""
    server = Server(tmp_path_factory.mktemp("search") / "root")
    config = seglog.LogConfig(segment_bytes=2048, retention=seglog.Retention(compact=True, min_dirty_ratio=1))
    with seglog.Broker(server.root) as broker:
        topic = broker.create_topic("events", partitions=3, config=config)
        for number in range(600):
            value = b'{"id": %d, "tags": ["t%d"], "big": 12345678901234567%03d}' % (number, number % 7, number)
            key = b"k%d" % (number % 20 if number % 3 == 0 else number)
            topic.partition(number % 3).append(value, key=key, timestamp=BEGIN + number * SECOND)
        topic.partition(0).compact()
        topic.partition(1).append(b"no JSON, but needle", key=b"text", timestamp=BEGIN + 1000 * SECOND)
        broker.groups.commit("billing", {"events": {0: 600 // 3, 1: 5, 2: 5}})
    server.start()
    yield server
    server.stop()


@pytest.fixture
def page(open_console: Callable[..., Console], searched: Server) -> Console:
    return open_console(searched)


def texts(console: Console) -> list[str]:
    expect(console.page.locator("[role=status].hint")).not_to_contain_text("…")
    return console.page.locator(".record .preview").all_inner_texts()


def test_all_partitions_are_shown_at_once_with_the_newest_record_first(page: Console) -> None:
    page.go("topics/events/search")
    expect(page.rows()).to_have_count(50)
    shown = texts(page)
    assert shown[0].endswith("needle")
    numbers = [int(text.partition('"id": ')[2].partition(",")[0]) for text in shown[1:]]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] == 599
    assert {number % 3 for number in numbers} == {0, 1, 2}
    page.page.get_by_role("button", name="Continue").click()
    expect(page.rows()).to_have_count(100)


def test_a_text_is_found_in_the_whole_history(page: Console) -> None:
    console = page.go("topics/events/search")
    console.get_by_label("Text").fill('"id": 7,')
    console.get_by_role("button", name="Search", exact=True).click()
    expect(page.rows()).to_have_count(1)
    expect(console.locator(".hint")).to_contain_text("these are all")
    assert "text=" in console.url


def test_a_json_path_is_compared_with_all_digits(page: Console) -> None:
    console = page.go("topics/events/search?path=%24.big&equals=12345678901234567100")
    expect(page.rows()).to_have_count(1)
    assert '"id": 100,' in texts(page)[0]
    console.get_by_label("JSON path").fill("tags[0]")
    console.get_by_label("equals").fill("t3")
    console.get_by_role("button", name="Search", exact=True).click()
    expect(page.rows()).to_have_count(50)
    assert all('"t3"' in text for text in texts(page))


def test_a_path_that_is_none_is_explained_and_nothing_found_is_reported(page: Console) -> None:
    console = page.go("topics/events/search?path=a..b")
    expect(console.get_by_role("alert")).to_contain_text("is not a path")
    console = page.go("topics/events/search?text=nowhere")
    expect(console.locator(".empty")).to_have_text("No record matches.")


def test_a_record_has_an_address_of_its_own(page: Console) -> None:
    console = page.go("topics/events/search?text=needle")
    page.rows().first.locator("button.row").click()
    console.get_by_role("link", name="link to this record").click()
    expect(console.locator(".record.marked")).to_contain_text("needle")
    assert "partition=1" in console.url


@pytest.mark.parametrize(
    ("place", "fields", "expected"),
    [
        ("the earliest records", {}, [0, 0, 0]),
        ("the end: only new records", {}, None),
        ("a time", {"Time": "2023-11-14T22:14:20"}, [20, 20, 20]),  # BEGIN + 60 s
        ("an offset of one partition", {"Partition": "1", "Offset": "17"}, {"1": 17}),
    ],
)
def test_a_group_is_moved(page: Console, searched: Server, place, fields, expected) -> None:
    console = page.go("groups/billing")
    ends = [one["next_offset"] for one in searched.ask("GET", "/topics/events")["partition_states"]]
    before = searched.ask("GET", "/groups/billing/offsets")["offsets"]["events"]
    console.get_by_role("button", name="Reset offsets").click()
    dialog = console.get_by_role("dialog")
    dialog.get_by_label("Continue at").select_option(place)
    for label, value in fields.items():
        dialog.get_by_label(label, exact=True).fill(value)
    dialog.get_by_role("button", name="Reset").click()
    expect(dialog).to_have_count(0)
    if isinstance(expected, dict):
        wanted = before | expected
    else:
        wanted = {str(number): offset for number, offset in enumerate(ends if expected is None else expected)}
    after = searched.ask("GET", "/groups/billing/offsets")["offsets"]["events"]
    if place == "the earliest records":
        wanted["0"] = searched.ask("GET", "/topics/events")["partition_states"][0]["lowest_offset"]
    if place == "a time":  # partition 0 has gaps: its first record at that time may be a later one
        assert after["0"] >= wanted["0"]
        wanted["0"] = after["0"]
    assert after == wanted


def test_a_group_with_a_missing_field_is_not_moved(page: Console, searched: Server) -> None:
    console = page.go("groups/billing")
    before = searched.ask("GET", "/groups/billing/offsets")
    console.get_by_role("button", name="Reset offsets").click()
    dialog = console.get_by_role("dialog")
    dialog.get_by_label("Continue at").select_option("a time")
    dialog.get_by_role("button", name="Reset").click()
    expect(dialog.get_by_role("alert")).to_have_text("Enter a time.")
    dialog.get_by_role("button", name="Cancel").click()
    assert searched.ask("GET", "/groups/billing/offsets") == before
