"""The console in a real browser, against a real server: what is shown is what the log holds."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Error, Page, expect, sync_playwright

import seglog
from seglog import LogConfig, Retention
from tests import tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Locator

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND
SCRIPT = b"<script>window.broken = true</script><img src=x onerror='window.broken = true'>"
PLACES = ["topics", "topics/orders", "topics/orders/records", "topics/orders/groups", "topics/orders/tail"]
PLACES += ["topics/orders/append", "topics/orders/settings", "topics/orders/records?by=key&key=k1"]
PLACES += ["groups", "groups/billing", "copies"]
NO_ANSWER = "Failed to load resource"  # the browser's own words about any status from 400 on, and about no answer


class Server:
    """`seglog serve` as a process, and requests to it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port = 0
        self.token: str | None = None

    def start(self, *options: object) -> None:
        """Start it, at the port that it had before if there was one."""
        words = [sys.executable, "-m", "seglog", "serve", str(self.root), "--port", str(self.port), *map(str, options)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        said = (re.search(r"listening on (http://127\.0\.0\.1:(\d+))", line) for line in self._process.stdout)
        found = next((one for one in said if one is not None), None)
        assert found is not None, "the server did not start"
        self.url, self.port = found[1], int(found[2])

    def stop(self, how: int = signal.SIGTERM) -> None:
        """End it and wait until it is gone."""
        self.send(how)
        self._process.communicate(timeout=60)

    def send(self, how: int) -> None:
        """Send it a signal."""
        self._process.send_signal(how)

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Make a request with a JSON body, or bytes; give the answer's JSON."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        sent = {"content": body} if isinstance(body, bytes) else {} if body is None else {"json": body}
        answer = httpx.request(method, self.url + path, headers=headers, timeout=30, **sent)
        answer.raise_for_status()
        return answer.json()

    def append(self, value: bytes, key: bytes = b"k", partition: int | None = None, topic: str = "orders") -> Any:
        """Append one record; give the answer."""
        where = "" if partition is None else f"&partition={partition}"
        return self.ask("POST", f"/topics/{topic}/records?key={quote(key)}{where}", value)


class Console:
    """The page, with what it said to the browser's console and whom it asked."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page = page
        self.server = server
        self.errors: list[str] = []
        self.foreign: list[str] = []
        page.on("console", lambda said: self.errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._asked)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.server.url, "blob:", "data:")):
            self.foreign.append(request.url)

    def go(self, place: str) -> Page:
        """Load the console at a place and wait until it is there."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.server.url}/#/{place}")
        expect(self.page.locator("main h1")).to_be_visible()
        return self.page

    def rows(self) -> Locator:
        """The records that are shown."""
        return self.page.locator(".record")

    def offsets(self) -> list[int]:
        """The offsets that are shown, once they are."""
        expect(self.page.locator("[aria-busy=true]")).to_have_count(0)
        return [int(text.rpartition("/")[2]) for text in self.page.locator(".row .offset").all_inner_texts()]


def fill(root: Path) -> None:
    """A topic of four unequal partitions, compacted so that the first has gaps, and two groups at known offsets."""
    kept = Retention(compact=True, min_dirty_ratio=1)
    config = LogConfig(segment_bytes=4096, index_interval_bytes=256, retention=kept)
    with seglog.Broker(root) as broker:
        topic = broker.create_topic("orders", partitions=4, config=config)
        for number in range(4):
            log = topic.partition(number)
            for i in range(400 - 110 * number):
                value = b'{"n":%d,"big":12345678901234567890,"pad":"%s"}' % (i, b"x" * 40)
                log.append(value, key=b"k%d" % (i % 60 if i < 200 else i), timestamp=BEGIN + i * SECOND)
        log = topic.partition(1)
        log.append(SCRIPT, key=b"<b>bold</b>", timestamp=BEGIN + 1000 * SECOND)
        log.append(b"\xff\x00\x01", key=b"bytes", timestamp=BEGIN + 1001 * SECOND, headers=[("trace", b"\xfe")])
        log.append(b"long " * 1100, key=b"long", timestamp=BEGIN + 1002 * SECOND)
        log.append(None, key=b"gone", timestamp=BEGIN + 1003 * SECOND)
        topic.append(b"found by its key", key=b"k-routed", timestamp=BEGIN + 1004 * SECOND)
        topic.partition(0).compact()
        broker.groups.commit("billing", {"orders": {0: topic.partition(0).next_offset, 1: 100}})
        broker.groups.commit("search", {"orders": {0: 10}})


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=tools.find(tools.BROWSER), args=["--no-sandbox"])
        except Error as error:
            tools.missing(tools.BROWSER, str(error).splitlines()[0])
        yield started
        started.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("console") / "root")
    fill(made.root)
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def shared(browser: Browser, server: Server) -> Iterator[Console]:
    """One window for all tests that leave nothing behind in it: each of its own costs a second."""
    context = _context(browser)
    yield Console(context.new_page(), server)
    context.close()


def _context(browser: Browser, **options: Any) -> BrowserContext:
    made = browser.new_context(timezone_id="UTC", **{"viewport": {"width": 1280, "height": 800}, **options})
    made.set_default_timeout(10_000)
    return made


@pytest.fixture
def open_console(browser: Browser) -> Iterator[Callable[..., Console]]:
    """Open the console of a server; at the end nobody else was asked, and nothing broke in the page."""
    opened = []

    def begin(server: Server, **options: Any) -> Console:
        context = _context(browser, **options)
        opened.append((context, Console(context.new_page(), server)))
        return opened[-1][1]

    yield begin
    for context, console in opened:
        context.close()
        assert console.foreign == []
        assert [text for text in console.errors if not text.startswith(NO_ANSWER)] == []


@pytest.fixture
def console(shared: Console) -> Iterator[Console]:
    """The shared window; nothing at all may go wrong in it, not even a status from 400 on."""
    shared.errors.clear()
    yield shared
    assert shared.foreign == []
    assert shared.errors == []


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
    answer = httpx.get(f"{server.url}/topics/orders/partitions/0/records?max_records=1000")
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
        httpx.post(f"{server.url}/groups/billing/offsets", json=offsets).raise_for_status()

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
    page.get_by_label("For", exact=True).fill("7 d")
    page.get_by_role("button", name="Save retention").click()
    expect(page.get_by_text("The retention is changed")).to_be_visible()
    assert server.ask("GET", "/topics/by-hand")["retention"]["age"] == 7 * 86_400

    page.get_by_role("button", name="Delete …").click()
    delete = page.get_by_role("dialog").get_by_role("button", name="Delete")
    expect(delete).to_be_disabled()
    page.get_by_label("to confirm").fill("by-hand")
    delete.click()
    expect(page.get_by_role("heading", name="Topics", level=1)).to_be_visible()
    assert "by-hand" not in [topic["name"] for topic in server.ask("GET", "/topics")["topics"]]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """A leader with a topic, and a server that follows it."""
    leader, copy = Server(tmp_path / "leader"), Server(tmp_path / "copy")
    leader.start()
    leader.ask("POST", "/topics", {"name": "orders", "partitions": 2})
    copy.start("--follow", leader.url)
    yield leader, copy
    for one in (copy, leader):
        if one.runs:
            one.stop()


@pytest.mark.parametrize("width", [1400, 390])
def test_a_leader_shows_its_copies_and_a_copy_its_leader_with_their_lag(
    open_console: Callable[..., Console], pair: tuple[Server, Server], width: int
) -> None:
    leader, copy = pair
    window = {"viewport": {"width": width, "height": 900}}
    for number in range(30):
        leader.append(b"value %d" % number, partition=number % 2)
    page = open_console(leader, **window).go("copies")
    section = page.locator("section").filter(has_text=str(copy.root))
    expect(section).to_contain_text("up to date")
    rows = section.get_by_role("row").filter(has=page.get_by_role("link", name="orders", exact=True))
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("15")
    theirs = open_console(copy, **window).go("topics")
    expect(theirs.locator(".follows")).to_contain_text(f"Read-only copy of {leader.url} · up to date")
    theirs.locator(".follows").get_by_role("link", name="Details").click()
    expect(theirs.locator("main section").first).to_contain_text("copying · up to date")
    copy.send(signal.SIGSTOP)
    for number in range(10):
        leader.append(b"more %d" % number, partition=0)
    expect(section).to_contain_text("10 records behind")
    copy.send(signal.SIGCONT)
    expect(section).to_contain_text("up to date")
    leader.stop()
    expect(theirs.locator(".follows")).to_contain_text("leader not reached", timeout=30_000)
    expect(theirs.get_by_role("alert").first).to_contain_text("is the server running?")
    for one in (page, theirs):
        assert one.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_no_page_is_wider_than_its_window(open_console: Callable[..., Console], server: Server) -> None:
    console = open_console(server)
    for place in PLACES:
        page = console.go(place)
        expect(page.locator(".waiting, [aria-busy=true]")).to_have_count(0)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for width in (360, 768, 1440, 2560):
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


def test_a_server_with_tokens_is_asked_with_one_that_stays_in_the_tab(
    open_console: Callable[..., Console], tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens.json"
    made = subprocess.run(
        [sys.executable, "-m", "seglog", "token", tokens, "ops", "*=admin"], capture_output=True, text=True, check=True
    )
    server = Server(tmp_path / "root")
    server.token = made.stdout.strip()
    server.start("--tokens", tokens)
    try:
        server.ask("POST", "/topics", {"name": "orders", "partitions": 2})
        console = open_console(server)
        page = console.go("topics")
        page.get_by_role("textbox", name="Token").fill("not this one")
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_role("dialog").get_by_role("alert")).not_to_be_empty()
        page.get_by_role("textbox", name="Token").fill(server.token)
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.get_by_role("main").get_by_role("link", name="orders")).to_be_visible()
        page.reload()
        expect(page.get_by_role("main").get_by_role("link", name="orders")).to_be_visible()
        console.go("topics/orders/tail")
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        server.append(b"with a token")
        expect(console.rows()).to_contain_text("with a token")
        page.get_by_role("button", name="Forget token").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        page.goto("about:blank")  # no request of the page is under way when the server stops
    finally:
        server.stop()


def test_it_survives_a_restart_of_the_server_and_misses_no_record(
    open_console: Callable[..., Console], tmp_path: Path
) -> None:
    server = Server(tmp_path / "root")
    server.start()
    try:
        server.ask("POST", "/topics", {"name": "orders", "partitions": 2})
        console = open_console(server)
        page = console.go("topics/orders/tail")
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        server.append(b"before")
        expect(console.rows()).to_contain_text("before")
        server.stop(signal.SIGKILL)
        expect(page.locator(".banner")).to_contain_text("The server does not answer.")
        server.start()
        server.append(b"while nobody listened")
        page.evaluate("dispatchEvent(new Event('online'))")  # rather than wait until it tries by itself
        expect(page.locator(".banner")).to_have_count(0)
        expect(console.rows().first).to_contain_text("while nobody listened")
        expect(console.rows()).to_have_count(2)
    finally:
        server.stop()
