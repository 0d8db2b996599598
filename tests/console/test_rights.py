"""What a token may do, and which tokens there are: shown to those who may know."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.sync_api import expect

import seglog
from seglog.server.rights.access import new_token
from tests.console.conftest import Console, Server
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, dict[str, str]]]:
    place = tmp_path_factory.mktemp("rights")
    server = Server(place / "root")
    with seglog.Broker(server.root) as broker:
        broker.create_topic("orders")
    made = {
        "reader": new_token("reader", {"orders": ["read"]}, ["billing", "billing-*"]),
        "operator": new_token("operator", {"*": ["admin"]}),
    }
    (place / "tokens.json").write_text(json.dumps({"tokens": [entry for _, entry in made.values()]}))
    server.start("--tokens", place / "tokens.json")
    yield server, {name: token for name, (token, _) in made.items()}
    server.stop()


def asked(server: Server, token: str | None) -> httpx.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{server.url}/access", headers=headers, timeout=HANG_SECONDS)


def test_a_token_sees_its_own_rights_and_only_an_operator_sees_those_of_others(guarded):
    server, tokens = guarded
    assert asked(server, None).status_code == 401
    reader = {"name": "reader", "rights": {"orders": ["read"]}, "groups": ["billing", "billing-*"]}
    assert asked(server, tokens["reader"]).json() == {"required": True, "caller": reader, "tokens": []}
    seen = asked(server, tokens["operator"])
    assert [one["name"] for one in seen.json()["tokens"]] == ["operator", "reader"]
    assert seen.json()["tokens"][1] == reader
    assert not any(token in seen.text or "sha256" in seen.text for token in tokens.values())


def test_the_console_shows_the_rights_of_its_token(open_console: Callable[..., Console], guarded) -> None:
    server, tokens = guarded
    console = open_console(server)
    page = console.page
    page.goto(f"{server.url}/#/access")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Token").fill(tokens["reader"])
    dialog.get_by_role("button", name="Use it").click()
    expect(page.get_by_role("table", name="Rights of this token")).to_contain_text("orders")
    expect(page.locator("main")).to_contain_text("It owns the groups billing, billing-*.")
    expect(page.get_by_role("table", name="All tokens")).to_have_count(0)


def test_the_console_shows_an_operator_all_tokens(open_console: Callable[..., Console], guarded) -> None:
    server, tokens = guarded
    console = open_console(server)
    page = console.page
    page.goto(f"{server.url}/#/access")
    page.get_by_role("dialog").get_by_label("Token").fill(tokens["operator"])
    page.get_by_role("dialog").get_by_role("button", name="Use it").click()
    everyone = page.get_by_role("table", name="All tokens")
    expect(everyone).to_contain_text("orders: read")
    expect(everyone).to_contain_text("billing-*")


def test_a_server_without_tokens_says_that_all_may_do_everything(console: Console) -> None:
    page = console.go("access")
    expect(page.locator(".empty")).to_contain_text("may do everything")
