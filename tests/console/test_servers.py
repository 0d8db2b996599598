"""The console of servers that are copies, have tokens, or restart."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Console, Server
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


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
    expect(rows.first.locator("[data-label='In sync']")).to_have_text("yes")
    theirs = open_console(copy, **window).go("topics")
    expect(theirs.locator(".follows")).to_contain_text(f"Read-only copy of {leader.url} · up to date")
    theirs.locator(".follows").get_by_role("link", name="Details").click()
    expect(theirs.locator("main section").first).to_contain_text("copying · up to date")
    copy.send(signal.SIGSTOP)
    for number in range(10):
        leader.append(b"more %d" % number, partition=0)
    expect(section).to_contain_text("10 records behind")
    [lacking] = [one for one in leader.ask("GET", "/copies")["copies"][0]["partitions"] if one["records"]]
    assert (lacking["topic"], lacking["partition"], lacking["records"]) == ("orders", 0, 10)
    assert lacking["bytes"] > 10 * len(b"more 0")
    copy.send(signal.SIGCONT)
    expect(section).to_contain_text("up to date")
    leader.stop()
    expect(theirs.locator(".follows")).to_contain_text("leader not reached", timeout=1000 * HANG_SECONDS)
    expect(theirs.get_by_role("alert").first).to_contain_text("is the server running?")
    for one in (page, theirs):
        assert one.evaluate("document.documentElement.scrollWidth <= innerWidth")


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
