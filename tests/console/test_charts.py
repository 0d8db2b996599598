"""Lag and throughput over time, drawn from what the server reports while the page is open."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.sync_api import expect

import seglog
from tests.console.conftest import Console, Server
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAINTED = """chart => {
  const canvas = chart.shadowRoot.querySelector("canvas");
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.some((byte) => byte !== 0);
}"""


@pytest.fixture(scope="module")
def read_by_a_group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("charts") / "root")
    with seglog.Broker(server.root) as broker:
        topic = broker.create_topic("orders", partitions=2)
        for number in range(10):
            topic.append(b"%d" % number, partition=number % 2)
        broker.groups.commit("billing", {"orders": {0: 1, 1: 2}})
    server.start()
    yield server
    server.stop()


def test_the_lag_of_a_group_is_drawn_and_follows_the_server(
    open_console: Callable[..., Console], read_by_a_group: Server
) -> None:
    console = open_console(read_by_a_group)
    page = console.go("groups/billing")
    lag = page.get_by_role("img", name=re.compile("^Lag, in records, now orders: 7$"))
    expect(lag).to_be_visible(timeout=1000 * HANG_SECONDS)
    read_by_a_group.append(b"11", partition=0)
    expect(page.get_by_role("img", name=re.compile("now orders: 8$"))).to_be_visible(timeout=1000 * HANG_SECONDS)
    chart = page.locator("seglog-chart").first
    assert chart.evaluate(PAINTED)
    assert len(chart.evaluate("chart => chart.value.series[0].points")) >= 2
    offsets = {"offsets": {"orders": {"0": 6, "1": 5}}}
    httpx.post(f"{read_by_a_group.url}/groups/billing/offsets", json=offsets, timeout=HANG_SECONDS).raise_for_status()
    expect(page.get_by_role("img", name=re.compile("now orders: 0$"))).to_be_visible(timeout=1000 * HANG_SECONDS)
    points = (
        page.locator("seglog-chart").nth(1).evaluate("chart => chart.value.series[0].points.map((one) => one.value)")
    )
    assert max(points) > 0  # the group has read eight records


def test_a_topics_page_shows_what_was_appended_and_its_groups(
    open_console: Callable[..., Console], read_by_a_group: Server
) -> None:
    console = open_console(read_by_a_group, color_scheme="dark", viewport={"width": 390, "height": 800})
    page = console.go("topics/orders/rates")
    expect(page.locator("seglog-chart")).to_have_count(3, timeout=1000 * HANG_SECONDS)
    read_by_a_group.append(b"more", partition=1)
    appended = page.locator("seglog-chart").first
    page.wait_for_function(
        "chart => chart.value.series[0].points.some((one) => one.value > 0)", arg=appended.element_handle()
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert appended.evaluate("chart => chart.shadowRoot.querySelector('.u-legend').innerText").startswith("Time")
