"""Values by the schema of their topic's table, next to how they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

import seglog
from tests.console.conftest import SCRIPT, Console, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Locator, Page
MARKUP = b"<img src=x onerror='window.broken = true'>"
ORDER = b'{"id": 12345678901234567, "customer": {"name": "%s"}, "tags": ["a", "b"]}' % MARKUP


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose topic `orders` has a typed table, `visits` one that a function decodes, and `plain` none yet."""
    place = tmp_path_factory.mktemp("values")
    server = Server(place / "root")
    with seglog.Broker(server.root) as broker:
        for name in ("orders", "visits", "plain"):
            broker.create_topic(name).append(ORDER)
        broker.topic("orders").append(b'{"id": "eight"}')
        broker.topic("orders").append(SCRIPT)
        broker.topic("orders").append(None, key=b"gone")
    seglog.table.sync(server.root / "orders", place / "warehouse", active=True, schema="infer")
    seglog.table.sync(
        server.root / "visits", place / "warehouse", active=True, schema="infer", values=lambda _: {"id": 1}
    )
    server.start("--table", place / "warehouse", "--table-interval", "1d")
    yield server
    server.stop()


def opened(page: Page, offset: int) -> Locator:
    row = page.locator(".record").filter(has=page.locator(".offset", has_text=str(offset)))
    row.locator(".row").click()
    return row


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_a_value_that_fits_is_shown_as_fields_next_to_the_value(
    open_console: Callable[..., Console], typed: Server, width: int, scheme: str
) -> None:
    window = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    page = open_console(typed, **window).go("topics/orders/records")
    row = opened(page, 0)
    fields = row.get_by_role("table", name="Fields")
    expect(fields.get_by_role("row")).to_have_count(7)
    expect(fields.get_by_role("row").filter(has_text="id").first).to_contain_text("12345678901234567")
    expect(fields).to_contain_text("<img src=x")
    expect(row).to_contain_text("inferred schema")
    expect(row.locator("pre.json")).to_contain_text('"tags"')
    beside = row.locator(".value").bounding_box()
    table = fields.bounding_box()
    assert beside is not None
    assert table is not None
    assert (beside["x"] > table["x"] + 100) == (width == 1400)
    assert page.evaluate("window.broken") is None
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_value_that_does_not_fit_is_shown_as_it_is_with_the_reason(
    open_console: Callable[..., Console], typed: Server
) -> None:
    page = open_console(typed).go("topics/orders/records")
    row = opened(page, 1)
    expect(row.get_by_role("note")).to_have_text("Not decoded: id is a text, which does not fit int64")
    expect(row.locator("pre.json")).to_contain_text('"eight"')
    row = opened(page, 2)
    expect(row.get_by_role("note")).to_have_text("Not decoded: it is not a JSON object")
    expect(row.locator("pre.text")).to_contain_text("<script>")
    row = opened(page, 3)
    expect(row).to_contain_text("A tombstone: the key is deleted.")
    assert page.evaluate("window.broken") is None


def test_no_function_is_run_and_a_topic_without_a_schema_shows_json(
    open_console: Callable[..., Console], typed: Server
) -> None:
    console = open_console(typed)
    row = opened(console.go("topics/visits/records"), 0)
    expect(row.get_by_role("note")).to_contain_text("this server runs none")
    with console.page.expect_response("**/decoded"):
        row = opened(console.go("topics/plain/records"), 0)
    expect(row.locator("pre.json")).to_contain_text('"customer"')
    expect(row.get_by_role("note")).to_have_count(0)
    expect(row.get_by_role("table", name="Fields")).to_have_count(0)


def test_numbers_keep_all_their_digits_in_the_answer(typed: Server) -> None:
    found = typed.ask("GET", "/topics/orders/partitions/0/records/0/decoded")
    assert (found["schema"], found["unfit"], found["complete"]) == ("inferred", None, True)
    assert found["fields"][0] == {"name": "id", "depth": 0, "type": "long", "value": "12345678901234567"}
