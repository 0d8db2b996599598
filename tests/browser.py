"""A real browser for tests of pages."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from playwright.sync_api import Error, sync_playwright

from tests import tools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


@contextmanager
def started() -> Iterator[Browser]:
    """Start one. The test is skipped, or fails in CI, where there is none."""
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=tools.find(tools.BROWSER), args=["--no-sandbox"])
        except Error as error:
            tools.missing(tools.BROWSER, str(error).splitlines()[0])
        yield browser
        browser.close()
