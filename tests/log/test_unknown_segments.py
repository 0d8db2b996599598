"""A log whose manifest names a segment in a way that only a newer version knows: it is refused before any change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import seglog
from tests.format.entries import with_check

if TYPE_CHECKING:
    from pathlib import Path

SEGMENTS = 600


@pytest.fixture(scope="module")
def unknown(tmp_path_factory: Any) -> Path:
    """A log with a segment in its middle that has a field of a newer version, and a sound manifest."""
    path: Path = tmp_path_factory.mktemp("unknown") / "orders"
    with seglog.open(path, seglog.LogConfig(segment_bytes=512)) as log:
        for _ in range(SEGMENTS):
            log.append(bytes(400))
        log.alter(retention=seglog.Retention(bytes=2**40))  # writes a base, which has all segments
    lines = (path / "MANIFEST").read_bytes().splitlines(keepends=True)[:-1]
    assert len(lines) == SEGMENTS + 1
    lines[SEGMENTS // 2] = lines[SEGMENTS // 2].replace(b'"records":1', b'"records":1,"compressed":true')
    (path / "MANIFEST").write_bytes(with_check(b"".join(lines)))
    return path


@pytest.mark.parametrize("mode", ["a", "r"])
def test_an_opening_refuses_it_and_changes_nothing(unknown: Path, mode: Any) -> None:
    before = {file: file.stat().st_mtime_ns for file in unknown.iterdir()}
    with pytest.raises(seglog.FormatVersionError, match="compressed"):
        seglog.open(unknown, mode=mode)
    assert {file: file.stat().st_mtime_ns for file in unknown.iterdir()} == before
