"""What a client sends adds no line of its own to the server's log."""

from __future__ import annotations

import logging

import pytest

from seglog.errors import StorageError
from seglog.server.api.operations import _note


@pytest.mark.parametrize("error", [StorageError("no\nspace"), KeyError("a\nb")])
def test_a_path_with_a_newline_stays_on_its_line(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        _note(error, {"method": "GET", "path": "/groups/a\nWARNING: all is well\u202e"})
    (line,) = caplog.records
    assert line.getMessage().isprintable()
    assert r"/groups/a\nWARNING: all is well\u202e" in line.getMessage()
