"""Shared by the tests of the console: a server with known records, and a browser with its page."""

from __future__ import annotations

import re
import signal
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Page, expect

import seglog
from seglog import LogConfig, Retention
from tests import forked
from tests.browser import started
from tests.ports import kept_port
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Locator

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND
SCRIPT = b"<script>window.broken = true</script><img src=x onerror='window.broken = true'>"
expect.set_options(timeout=1000 * HANG_SECONDS)
NO_ANSWER = "Failed to load resource"  # the browser's own words about any status from 400 on, and about no answer


class Server:
    """`seglog serve` as a process, and requests to it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port = kept_port(self)
        self.token: str | None = None

    def start(self, *options: object) -> None:
        """Start it, at the port that it had before if there was one."""
        words = [sys.executable, "-m", "seglog", "serve", str(self.root), "--port", str(self.port), *map(str, options)]
        self._process = forked.start(words)
        said = (re.search(r"listening on (http://127\.0\.0\.1:(\d+))", line) for line in self._process.stdout)
        found = next((one for one in said if one is not None), None)
        assert found is not None, "the server did not start"
        self.url, self.port = found[1], int(found[2])

    def stop(self, how: int = signal.SIGTERM) -> None:
        """End it and wait until it is gone."""
        self.send(how)
        self._process.communicate(timeout=HANG_SECONDS)

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
        answer = httpx.request(method, self.url + path, headers=headers, timeout=HANG_SECONDS, **sent)
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
    with started() as one:
        yield one


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
    made.set_default_timeout(1000 * HANG_SECONDS)
    return made


@pytest.fixture
def open_console(browser: Browser, no_cover: None) -> Iterator[Callable[..., Console]]:
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
def console(shared: Console, no_cover: None) -> Iterator[Console]:
    """The shared window; nothing at all may go wrong in it, not even a status from 400 on."""
    shared.errors.clear()
    yield shared
    assert shared.foreign == []
    assert shared.errors == []
