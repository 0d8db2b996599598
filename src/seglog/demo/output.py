"""The demo's output directory: what is replaced, and what is kept. Knows no flights and no log."""

from __future__ import annotations

import shutil
from pathlib import Path

from seglog.errors import InvalidArgument

MARKER = ".seglog-demo"
TOPIC, TABLE, CHECKPOINT = "flights", "events.parquet", "checkpoint"
AIRCRAFT, DELAYS, REPORT = "aircraft.parquet", "delays.parquet", "report.html"
AIRCRAFT_COMPACTED, WAREHOUSE = "aircraft-compacted.parquet", "warehouse"
_OWN = (REPORT, DELAYS, AIRCRAFT, AIRCRAFT_COMPACTED, CHECKPOINT, TABLE, WAREHOUSE, TOPIC)


def prepare(output: Path) -> None:
    """Prepare `output` for a run; remove what an earlier run wrote there and nothing else.

    Raises InvalidArgument for a file, or for a non-empty directory that the demo did not create.
    """
    if output.exists() and not output.is_dir():
        raise InvalidArgument(f"{output} is a file; name a directory for the demo's output")
    marker = output / MARKER
    if output.is_dir() and any(output.iterdir()) and not marker.is_file():
        raise InvalidArgument(
            f"{output} holds files and was not created by the demo, so it was not changed; name another directory"
        )
    output.mkdir(parents=True, exist_ok=True)
    marker.write_text("seglog demo made this directory and replaces its own files here when it runs again.\n", "utf-8")
    for name in _OWN:
        entry = output / name
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
