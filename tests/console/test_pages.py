"""The console in a real browser, against a real server: what is shown is what the log holds."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.sync_api import expect

from tests.console.conftest import SCRIPT, Console, Server
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable


PLACES = ["topics", "topics/orders", "topics/orders/records", "topics/orders/groups", "topics/orders/tail"]
PLACES += [
    "topics/orders/search",
    "topics/orders/append",
    "topics/orders/settings",
    "topics/orders/records?by=key&key=k1",
]
PLACES += ["groups", "groups/billing", "copies", "kafka", "access"]
WIDTHS = (360, 768, 1440, 2560)


def test_topics_appear_with_their_figures_and_their_groups(console: Console, server: Server) -> None:
    page = console.go("topics")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="orders", exact=True))
    shown = server.ask("GET", "/topics/orders")
    expect(row).to_contain_text(f"{shown['records']:,}")
    expect(row).to_contain_text("latest per key")
    expect(row).to_contain_text("billing")
    expect(row.locator(f"[title='{shown['bytes']:,} bytes']")).to_be_visible()


def test_segments_are_as_wide_as_they_have_bytes(console: Console, server: Server) -> None:
    page = console.go("topics/orders")
    expect(page.locator(".lane")).to_have_count(4)
    expect(page.locator(".segment.active")).to_have_count(4)
    measured, sizes = [], []
    for number in range(4):
        segments = server.ask("GET", f"/topics/orders/partitions/{number}")["segments"]
        boxes = [one.bounding_box() for one in page.locator(f"[data-partition='{number}'] .segment").all()]
        assert len(boxes) == len(segments)
        measured += [box["width"] for box in boxes if box]
        sizes += [segment["bytes"] for segment in segments]
    widest = max(measured)
    assert len(sizes) > 12
    for width, size in zip(measured, sizes, strict=True):
        assert width / widest == pytest.approx(size / max(sizes), abs=2 / widest)


def test_a_segments_figures_are_reached_by_keyboard(console: Console, server: Server) -> None:
    page = console.go("topics/orders")
    first = page.locator("[data-partition='1'] .segment").first
    page.locator("[data-partition='1'] .segment").last.focus()
    page.keyboard.press("Home")
    expect(first).to_be_focused()
    segment = server.ask("GET", "/topics/orders/partitions/1")["segments"][0]
    card = page.locator(".card")
    expect(card).to_contain_text(f"{segment['records']:,}")
    page.keyboard.press("Enter")
    card.get_by_role("link", name="Records from here").click()
    expect(console.rows().first).to_be_visible()
    assert console.offsets()[0] == segment["base_offset"]


def test_records_are_found_by_offset(console: Console) -> None:
    page = console.go("topics/orders/records?partition=1")
    page.get_by_label("From offset").fill("17")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(console.rows().first).to_contain_text('{"n":17,')
    assert console.offsets() == list(range(17, 67))


def test_records_are_found_by_time(console: Console) -> None:
    page = console.go("topics/orders/records?by=time&partition=2")
    page.get_by_label("At or after").fill("2023-11-14T22:14:30.500")  # BEGIN + 70.5 s
    page.get_by_role("button", name="Go", exact=True).click()
    expect(console.rows().first).to_contain_text("22:14:31")
    assert console.offsets()[0] == 71


def test_records_are_found_by_key(console: Console, server: Server) -> None:
    page = console.go("topics/orders/records?by=key")
    page.get_by_label("Key", exact=True).fill("k-routed")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(console.rows()).to_have_count(1)
    expect(console.rows()).to_contain_text("found by its key")


def test_paging_both_ways_passes_every_record_once_over_the_gaps_of_compaction(
    console: Console, server: Server
) -> None:
    answer = httpx.get(f"{server.url}/topics/orders/partitions/0/records?max_records=1000", timeout=HANG_SECONDS)
    there = [json.loads(line)["offset"] for line in answer.text.splitlines()]
    assert len(there) < there[-1], "compaction left no gaps"
    page = console.go("topics/orders/records?partition=0")
    expect(console.rows().first).to_be_visible()
    seen = console.offsets()
    assert seen == there[-50:]
    while seen[0] != there[0]:
        page.get_by_role("button", name="Older").first.click()
        expect(page.locator(".row .offset").first).not_to_have_text(str(seen[0]))
        older = console.offsets()
        seen = [*(offset for offset in older if offset < seen[0]), *seen]
    assert seen == there
    page.get_by_role("button", name="Newer").first.click()
    expect(page.locator(".row .offset").first).to_have_text(str(there[50]))
    page.go_back()
    expect(page.locator(".row .offset").first).to_have_text(str(there[0]))
    page.reload()
    expect(page.locator(".row .offset").first).to_have_text(str(there[0]))


def test_newest_shows_the_newest_records_although_a_large_one_is_among_them(
    open_console: Callable[..., Console], server: Server
) -> None:
    log = {"small": b"v", "large": b"x" * 2_000_000}
    for topic, sizes in {"large": ["small"] * 33 + ["large", "small"], "larger": ["large"] * 5 + ["small"]}.items():
        server.ask("POST", "/topics", {"name": topic, "partitions": 1})
        for size in sizes:
            server.append(log[size], topic=topic)
    console = open_console(server, viewport={"width": 390, "height": 800})
    page = console.go("topics/large/records")
    expect(console.rows()).to_have_count(35)
    expect(page.locator(".pager").first).to_contain_text("0 … 34 of 0 … 34")
    expect(page.get_by_role("button", name="Newer").first).to_be_disabled()
    page = console.go("topics/larger/records")
    expect(console.rows().first).to_be_visible()
    seen = [console.offsets()]
    assert seen[0][-1] == 5
    while seen[0][0] > 0:  # pages of large records are shorter, and meet without a gap
        page.get_by_role("button", name="Older").first.click()
        expect(page.locator(".row .offset").first).not_to_have_text(str(seen[0][0]))
        seen.insert(0, console.offsets())
        assert len(seen[0]) > 1
        assert seen[0][-1] >= seen[1][0] - 1
    page.get_by_role("button", name="Newer").first.click()
    expect(page.locator(".row .offset").first).not_to_have_text("0")
    assert console.offsets()[0] == seen[0][-1] + 1


def test_an_offset_outside_is_a_sentence_with_a_way_out(open_console: Callable[..., Console], server: Server) -> None:
    console = open_console(server)
    page = console.go("topics/orders/records?partition=1&at=999999")
    expect(page.get_by_role("alert")).to_contain_text("out of range")
    page.get_by_role("button", name="Lowest offset").click()
    expect(page.locator(".row .offset").first).to_have_text("0")


def test_values_are_shown_as_what_they_are_and_never_become_markup(console: Console) -> None:
    page = console.go("topics/orders/records?partition=1")
    row = console.rows().filter(has_text="bold")
    row.get_by_role("button").first.click()
    expect(row.locator("pre")).to_have_text(SCRIPT.decode())
    expect(row).to_contain_text("<b>bold</b>")
    assert page.evaluate("window.broken === undefined && !document.querySelector('main img, main b, main script')")
    binary = console.rows().filter(has_text="bytes")
    binary.get_by_role("button").first.click()
    expect(binary.locator("pre")).to_contain_text("ff 00 01")
    expect(binary.locator("dl")).to_contain_text("trace")
    expect(console.rows().filter(has_text="gone")).to_contain_text("tombstone")


def test_json_is_laid_out_without_changing_a_digit_and_a_long_value_is_cut_until_asked_for(console: Console) -> None:
    page = console.go("topics/orders/records?partition=1&at=5")
    console.rows().first.get_by_role("button").first.click()
    expect(console.rows().first.locator("pre")).to_contain_text('"big": 12345678901234567890,\n')
    page.get_by_role("button", name="Newest").first.click()
    row = console.rows().filter(has_text="long")
    row.get_by_role("button").first.click()
    expect(row.locator("pre")).to_have_text(re.compile(r"^.{4096}$"))
    row.get_by_role("button", name="Show all").click()
    expect(row.locator("pre")).to_have_text(re.compile(r"^.{5499,5500}$"))


def test_a_record_appended_over_http_appears_in_the_live_tail(console: Console, server: Server) -> None:
    page = console.go("topics/orders/tail")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    server.append(b"seen at once", b"live-1")
    expect(console.rows().filter(has_text="seen at once")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    server.append(b"held back", b"live-2")
    expect(page.get_by_text("1 waiting")).to_be_visible()
    expect(console.rows().filter(has_text="held back")).to_have_count(0)
    page.get_by_role("button", name="Resume").click()
    expect(console.rows().first).to_contain_text("held back")


def test_the_lag_of_a_group_is_right_and_changes(console: Console, server: Server) -> None:
    def commit(offset: int) -> None:
        offsets = {"offsets": {"orders": {"1": offset}}}
        httpx.post(f"{server.url}/groups/billing/offsets", json=offsets, timeout=HANG_SECONDS).raise_for_status()

    page = console.go("groups/billing")
    behind = server.ask("GET", "/topics/orders")["partition_states"][1]["next_offset"] - 100
    row = page.get_by_role("table", name="Lag of billing").get_by_role("row").filter(has_text="100")
    expect(row).to_contain_text(str(behind))
    server.append(b"one more", b"lag", partition=1)
    expect(row).to_contain_text(str(behind + 1))
    commit(100 + behind)
    row = page.get_by_role("table", name="Lag of billing").get_by_role("row").filter(has_text=str(100 + behind))
    expect(row.locator(".behind")).to_have_text("1")
    commit(100)


def test_where_a_group_stands_is_marked_within_its_segment(console: Console, server: Server) -> None:
    page = console.go("topics/orders")
    segments = server.ask("GET", "/topics/orders/partitions/0")["segments"]
    number = next(i for i, segment in enumerate(segments) if segment["next_offset"] > 10)
    mark = page.locator("[data-partition='0'] .mark[aria-label='search at 10']").bounding_box()
    within = page.locator("[data-partition='0'] .segment").nth(number).bounding_box()
    assert mark is not None
    assert within is not None
    assert within["x"] - 1 <= mark["x"] + mark["width"] / 2 <= within["x"] + within["width"] + 1


def test_a_topic_is_made_filled_altered_and_deleted_by_hand(
    open_console: Callable[..., Console], server: Server
) -> None:
    console = open_console(server)
    page = console.go("topics")
    page.get_by_role("button", name="New topic").click()
    page.get_by_label("Name").fill("by-hand")
    page.get_by_label("Partitions").fill("2")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="by-hand", exact=True)).to_be_visible()

    page.get_by_role("link", name="Append", exact=True).click()
    page.get_by_label("Key", exact=True).fill("ä key & more")
    page.get_by_label("Value", exact=True).fill("typed in")
    page.get_by_role("button", name="Append", exact=True).click()
    page.get_by_role("link", name="Show it").click()
    expect(console.rows().first).to_contain_text("typed in")
    expect(console.rows().first).to_contain_text("ä key & more")

    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Age", exact=True).fill("7 d")
    page.locator("summary", has_text="Segments").click()
    page.get_by_label("Compression", exact=True).select_option("zstd")
    page.locator("summary", has_text="Kafka's clients").click()
    page.get_by_label("Batch bytes", exact=True).fill("1 MiB")
    page.get_by_role("button", name="Save settings").click()
    expect(page.get_by_text("The settings are changed")).to_be_visible()
    made = server.ask("GET", "/topics/by-hand")
    assert (made["retention"]["age"], made["retention"]["batch_bytes"]) == (7 * 86_400, 1024**2)
    assert made["config"]["compression"] == "zstd"

    page.get_by_label("Number", exact=True).fill("3")
    page.get_by_role("button", name="Add partitions").click()
    expect(page.get_by_text("The topic has 3 partitions.")).to_be_visible()
    assert server.ask("GET", "/topics/by-hand")["partitions"] == 3

    page.get_by_role("button", name="Delete …").click()
    delete = page.get_by_role("dialog").get_by_role("button", name="Delete")
    expect(delete).to_be_disabled()
    page.get_by_label("to confirm").fill("by-hand")
    delete.click()
    expect(page.get_by_role("heading", name="Topics", level=1)).to_be_visible()
    assert "by-hand" not in [topic["name"] for topic in server.ask("GET", "/topics")["topics"]]


@pytest.mark.parametrize("dark", [WIDTHS[:1], pytest.param(WIDTHS, marks=pytest.mark.proof)])
def test_no_page_is_wider_than_its_window(
    open_console: Callable[..., Console], server: Server, dark: tuple[int, ...]
) -> None:
    console = open_console(server)
    for place in PLACES:
        page = console.go(place)
        expect(page.locator(".waiting, [aria-busy=true]")).to_have_count(0)
        for scheme, width in [*(("light", width) for width in WIDTHS), *(("dark", width) for width in dark)]:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 900})
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{place} is {wide} wide in a window of {width}, {scheme}"
    assert console.errors == []


def test_the_chosen_scheme_outlives_a_reload(open_console: Callable[..., Console], server: Server) -> None:
    page = open_console(server).go("topics")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_label("Colours").select_option("dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    page.reload()
    expect(page.get_by_label("Colours")).to_have_value("dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
