"""Any warning of the generator makes the build of the site fail: a small one here, with the options of the real one."""

from __future__ import annotations

import re
import sys

import pytest

from tools.docs_site.__main__ import main
from tools.docs_site.api import Page
from tools.docs_site.pages import ROOT

NAV = """nav = [
  { "Home" = "index.md" },
  { "Guide" = "guide.md" },
  { "API" = [ { "all" = "api/index.md" }, { "shop" = "api/shop.md" } ] },
]
"""
GUIDE = "# Guide\n\n## Start\n\nBack to [the start](../README.md), or to [the section](#start).\n"
SOURCE = '''"""A shop."""


def sell(count: int) -> None:
    """Sell apples.

    Args:
        count: How many.
    """
'''


@pytest.fixture
def build(tmp_path, monkeypatch, capfd):
    """Build a repository of two pages and a module; return the status, and what was printed."""

    def built(guide: str = GUIDE, source: str = SOURCE) -> tuple[int, str]:
        options = (ROOT / "zensical.toml").read_text("utf-8")
        files = {
            "zensical.toml": re.sub(r"^nav = \[\n.*?^\]\n", lambda _: NAV, options, flags=re.DOTALL | re.MULTILINE),
            "README.md": "# Shop\n\nRead the [guide](docs/guide.md).\n",
            "docs/guide.md": guide,
            "docs/site.css": "",
            "docs/stability.md": "",
            "src/corner_shop.py": source,
        }
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path / "src"))
        status = main(tmp_path, [Page("shop.md", "Shop", "corner_shop", "A shop.", ("sell",))])
        shown = capfd.readouterr()
        return status, shown.out + shown.err

    yield built
    sys.modules.pop("corner_shop", None)


def test_a_site_without_a_warning_is_built(build, tmp_path):
    assert build() == (0, "3 pages and the reference: build/site/html/index.html\n")
    shown = (tmp_path / "build" / "site" / "html" / "api" / "shop.html").read_text("utf-8")
    assert "How many." in shown


def test_a_link_to_a_heading_that_is_gone_makes_the_build_fail(build):
    status, shown = build(guide=GUIDE.replace("#start", "#begin"))
    assert status == 1
    assert "guide.md" in shown


def test_a_docstring_with_an_unclear_entry_makes_the_build_fail(build):
    status, shown = build(source=SOURCE.replace("count: How many.", "how many of them"))
    assert status == 1
    assert "griffe: " in shown
    assert "corner_shop.py" in shown


def test_a_name_that_the_module_does_not_have_makes_the_build_fail(build):
    status, shown = build(guide=GUIDE + "\n::: corner_shop.buy\n")
    assert status == 1
    assert "corner_shop.buy" in shown
