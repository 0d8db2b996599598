"""Copies of a log with compressed segments: a mirror sends records, so a copy has its own form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import seglog
from seglog import Mirror

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = seglog.LogConfig(segment_bytes=100_000)


def test_a_copy_follows_a_compressed_log_and_is_compressed_by_itself(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", CONFIG) as log:
        for number in range(5000):
            log.append(b'{"number": %d, "city": "EWR", "carrier": "UA"}' % number, key=b"%d" % number)
        log.compress("zstd")
        with Mirror(tmp_path / "log", tmp_path / "copy") as mirror:
            while mirror.step():
                pass
            log.append(b"one more")
            log.compress("lz4")
            while mirror.step():
                pass
        expected = list(log.scan())
    with seglog.open(tmp_path / "copy", mode="r") as copy:
        assert list(copy.scan()) == expected
        assert {segment.codec for segment in copy.segments} == {None}
        assert copy.verify().ok
