"""The demo's output directory: what is replaced, and what is left alone. Knows no flights and no log."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from seglog.errors import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path

MARKER = ".seglog-demo"
TOPIC, TABLE, CHECKPOINT = "flights", "events.parquet", "checkpoint"
AIRCRAFT, DELAYS, REPORT = "aircraft.parquet", "delays.parquet", "report.html"
AIRCRAFT_COMPACTED = "aircraft-compacted.parquet"
_OWN = (REPORT, DELAYS, AIRCRAFT, AIRCRAFT_COMPACTED, CHECKPOINT, TABLE, TOPIC)


def prepare(output: Path) -> None:
    """Make `output` ready for a run, removing what an earlier one wrote there and nothing else.

    Raises InvalidArgument for a file, or for a directory that holds something and was not made by the demo.
    """
    if output.exists() and not output.is_dir():
        raise InvalidArgument(f"{output} is a file; name a directory for the demo's output")
    marker = output / MARKER
    if output.is_dir() and any(output.iterdir()) and not marker.is_file():
        raise InvalidArgument(
            f"{output} holds files and was not made by the demo, so it was left alone; name another directory"
        )
    output.mkdir(parents=True, exist_ok=True)
    marker.write_text("seglog demo made this directory and replaces its own files here when it runs again.\n", "utf-8")
    for name in _OWN:
        entry = output / name
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
