"""Maps hold no descriptor, give their memory back, and refuse to be written to."""

from __future__ import annotations

import gc
import os
import resource
from pathlib import Path

import pyarrow as pa
import pytest

import seglog
from seglog.storage import mapping


def mapped_bytes(path: Path) -> int:
    """Return how many maps of a file this process has."""
    return Path("/proc/self/maps").read_text().count(str(path))


def test_a_map_outlives_its_descriptor_and_its_file_and_ends_with_its_last_user(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content" * 1000)
    descriptor = os.open(path, os.O_RDONLY)
    view = mapping.map_file(descriptor, 7000)
    os.close(descriptor)
    part = view[7:14]
    del view
    gc.collect()
    assert mapped_bytes(path) == 1
    assert bytes(part) == b"content" and part.readonly and part.format == "B"
    del part
    gc.collect()
    assert mapped_bytes(path) == 0


def test_a_map_that_the_system_refuses_is_an_error_with_its_number(tmp_path: Path) -> None:
    with pytest.raises(OSError) as error:
        mapping.map_file(os.open(tmp_path, os.O_RDONLY), 10)
    assert error.value.errno


def test_hundreds_of_kept_tables_leave_the_writer_enough_descriptors(tmp_path: Path) -> None:
    table = pa.table({"value": [b"v" * 1000] * 100})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with seglog.open(tmp_path / "log", seglog.LogConfig(segment_bytes=800_000)) as log:
        for _ in range(4):
            log.append_batch(table)
        used = len(list(Path("/proc/self/fd").iterdir()))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, hard))
        kept = []
        try:
            for _ in range(100):
                log.append_batch(table)
                kept.append(log.to_arrow(log.next_offset - 100))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert all(one.num_rows == 100 for one in kept) and len(log.segments) > 10
