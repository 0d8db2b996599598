"""The site is built without a warning, and read in a browser that reaches no other host."""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading

import pytest

from tests.browser import started
from tools.docs_site.pages import ROOT

# in one process: each builds the site in the same place
pytestmark = [pytest.mark.proof, pytest.mark.needs("chromium"), pytest.mark.xdist_group("site")]
PAGES = (
    *("index.html", "tutorial.html", "comparison.html", "benchmarks.html", "architecture.html", "reliability.html"),
    *("options.html", "cli.html", "kafka.html", "table.html", "api/seglog.html", "adr/index.html"),
    *("api/server.html", "api/spark.html", "api/table.html", "api/testing.html"),
    *("howto/docker.html", "howto/monitoring.html", "howto/from-kafka.html"),
)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def site():
    done = subprocess.run(
        [sys.executable, "-m", "tools.docs_site"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    handler = functools.partial(Quiet, directory=str(ROOT / "build" / "site" / "html"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    with started() as one:
        yield one


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_pages_fit_ask_no_other_host_and_have_no_errors(site, browser, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name in PAGES:
        page.goto(f"{site}/{name}")
        page.wait_for_load_state("networkidle")
        assert page.locator("h1").first.is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        dark = page.evaluate("document.body.dataset.mdColorScheme") == "slate"
        assert dark == (scheme == "dark")
    page.close()
    assert [url for url in asked if not url.startswith((site, "data:", "blob:"))] == []
    assert errors == []


def test_a_search_finds_an_option(site, browser):
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(f"{site}/index.html")
    page.wait_for_load_state("networkidle")
    page.keyboard.press("/")
    page.keyboard.type("min_dirty_ratio")
    page.get_by_role("link", name="All options").first.wait_for()
    page.close()
