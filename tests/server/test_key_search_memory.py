"""A search for a key reads a whole partition, but maps little of it at a time."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import seglog
from seglog.server.routes.reading import all_batches

MIB = 1024 * 1024
VALUES, MOST = 256, 96 * MIB


def mapped() -> int:
    """Return the bytes of files that this process has in memory."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssFile:")[2].split()[0]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_a_search_has_a_small_part_of_a_large_store_in_memory(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        for number in range(VALUES):
            log.append(bytes(MIB), key=b"%d" % number)
        seen, most, before = 0, 0, mapped()
        for batch in all_batches(log, log.next_offset):
            seen += batch.num_rows
            most = max(most, mapped() - before)
    assert seen == VALUES
    assert 0 < most < MOST


def test_a_search_ends_before_the_end_that_it_is_given(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append_batch(pa.table({"value": [b"v"] * 10}))
        assert sum(batch.num_rows for batch in all_batches(log, 7)) == 7
        assert list(all_batches(log, 0)) == []
