"""Names that deceive, in the console and on the command line: what hides or turns text is seen."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

import seglog
from tests.console.conftest import Console, Server
from tests.test_visible import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

TURNED, HIDDEN, TRAILING, ALIKE = "\u202enimda", "bil\u200bling", "billing ", "bіlling"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("names") / "root")
    with seglog.Broker(made.root) as broker:
        topic = broker.create_topic("orders", partitions=1)
        topic.append(b'{"note":"\xe2\x80\xaeafter"}', key="k\u061cey".encode())
        for group in ("billing", TURNED, HIDDEN, TRAILING, ALIKE):
            broker.groups.commit(group, {"orders": {0: 1}})
    made.start()
    yield made
    made.stop()


def test_each_of_names_that_look_alike_is_told_from_the_others(
    open_console: Callable[..., Console], server: Server
) -> None:
    page = open_console(server).go("groups")
    expect(page.locator("main a.name")).to_have_count(5)
    shown = set(page.locator("main a.name").all_inner_texts())
    assert shown == {"billing", r"\u202enimda", r"bil\u200bling", r"billing\x20", "bіlling (U+0456)"}
    page.locator("main").get_by_role("link", name=r"\u202enimda").click()
    expect(page.locator("main h1")).to_have_text(r"\u202enimda")


def test_a_group_is_deleted_by_the_name_that_is_shown(open_console: Callable[..., Console], server: Server) -> None:
    page = open_console(server).go("groups")
    page.locator("main").get_by_role("link", name=r"billing\x20").click()
    page.get_by_role("button", name="Delete").click()
    page.locator("#typed").fill(r"billing\x20")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("main a.name")).to_have_count(4)
    assert TRAILING not in server.ask("GET", "/groups")["groups"]


def test_no_text_of_a_record_turns_the_text_around_it(open_console: Callable[..., Console], server: Server) -> None:
    page = open_console(server).go("topics/orders/records")
    expect(page.locator(".record")).to_contain_text(r"\u202eafter")
    expect(page.locator(".record")).to_contain_text(r"k\u061cey")
    assert not set(page.locator("body").inner_text()) & set("\u202e\u061c\u200b")


def test_the_command_line_shows_the_same_names(server: Server) -> None:
    done = subprocess.run([sys.executable, "-m", "seglog", "groups", server.url], capture_output=True, check=True)
    lines = done.stdout.decode().splitlines()
    assert {r"\u202enimda", r"bil\u200bling"} <= {line.split("  ")[0] for line in lines}
    assert any(line.startswith("bіlling (U+0456)") for line in lines)


def test_the_console_shows_every_name_as_the_command_line_does(browser: Browser, server: Server) -> None:
    page = browser.new_page()
    page.goto(f"{server.url}/console/visible.js")
    ask = "names => import('/console/visible.js').then(found => names.map(found.visibleName))"
    assert page.evaluate(ask, list(NAMES)) == list(NAMES.values())
    page.close()
