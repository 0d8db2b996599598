"""The page /docs: it shows every request that the server describes, sends GET requests, and asks no other host."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

import seglog
from seglog.server.rights.access import new_token
from tests.console.conftest import Console, Server
from tests.waiting import HANG_SECONDS

pytestmark = pytest.mark.needs("chromium")


@pytest.fixture
def page(console):
    console.page.goto(f"{console.server.url}/docs")
    expect(console.page.locator(".operation").first).to_be_visible()
    return console.page


def test_it_shows_every_request_with_its_parameters_and_answers(page, server):
    described = server.ask("GET", "/openapi.json")
    operations = [one for item in described["paths"].values() for one in item.values()]
    assert page.locator(".operation").count() == len(operations)
    assert {tag for one in operations for tag in one["tags"]} == {tag["name"] for tag in described["tags"]}
    assert all(tag["description"] for tag in described["tags"])
    read = page.locator("#read_range")
    read.locator("summary").first.click()
    expect(read.get_by_role("table", name="Parameters")).to_contain_text("max_records")
    expect(read).to_contain_text("application/x-ndjson")
    expect(read).to_contain_text("curl -s")


def test_an_address_opens_a_request(page, server):
    page.goto(f"{server.url}/docs#metrics")
    expect(page.locator("#metrics")).to_have_attribute("open", "")


def test_a_request_is_sent_and_its_answer_shown(page, server):
    operation = page.locator("#topic")
    operation.locator("summary").first.click()
    operation.get_by_label("topic", exact=True).fill("orders")
    operation.get_by_role("button", name="Send").click()
    expect(operation.get_by_role("status", name="Answer")).to_contain_text('"partitions": 4')


def test_a_refusal_is_shown_as_the_server_reports_it(browser, server):
    page = browser.new_page()
    page.goto(f"{server.url}/docs#topic")
    operation = page.locator("#topic")
    operation.get_by_label("topic", exact=True).fill("missing")
    operation.get_by_role("button", name="Send").click()
    expect(operation.get_by_role("status", name="Answer")).to_contain_text("There is no topic 'missing'")
    page.close()


def test_a_tail_ends_by_itself_with_what_came(page):
    operation = page.locator("#tail")
    operation.locator("summary").first.click()
    operation.get_by_label("topic", exact=True).fill("orders")
    operation.get_by_role("button", name="Send").click()
    expect(operation.get_by_role("status", name="Answer")).to_contain_text(
        "ended after 5 s", timeout=1000 * HANG_SECONDS
    )


def test_a_token_is_sent_with_requests(browser, tmp_path, open_console):
    served = Server(tmp_path / "root")
    with seglog.Broker(served.root) as broker:
        broker.create_topic("orders")
    token, entry = new_token("reader", {"orders": ["read"]})
    (tmp_path / "tokens.json").write_text(json.dumps({"tokens": [entry]}))
    served.start("--tokens", tmp_path / "tokens.json")
    try:
        console: Console = open_console(served)
        console.page.goto(f"{served.url}/docs#topic")
        operation = console.page.locator("#topic")
        operation.get_by_label("topic", exact=True).fill("orders")
        operation.get_by_role("button", name="Send").click()
        expect(operation.get_by_role("status", name="Answer")).to_contain_text("token")
        console.page.get_by_label("Token").fill(token)
        console.page.get_by_label("Token").blur()
        operation.get_by_role("button", name="Send").click()
        expect(operation.get_by_role("status", name="Answer")).to_contain_text('"partitions": 1')
    finally:
        served.stop()
