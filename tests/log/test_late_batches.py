"""A batch that is appended while the process ends: no thread can be started any more, and it is whole or not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import seglog

if TYPE_CHECKING:
    from pathlib import Path

LATE = """
import sys, threading, pyarrow, seglog
from concurrent.futures import thread
log, table = seglog.open(sys.argv[1]), pyarrow.table({"value": pyarrow.nulls(200_000)})
log.append_batch(table)
def late():
    while not thread._shutdown:  # set once the main thread is at its end
        pass
    log.append_batch(table)
    print(log.append(b"more"))
    log.close()
threading.Thread(target=late).start()
"""


def test_a_batch_is_appended_when_no_thread_can_be_started_any_more(path: Path, script: Any) -> None:
    assert script(LATE, path) == "400000\n"
    with seglog.open(path, mode="r") as log:
        assert log.next_offset == 400_001
    assert seglog.verify(path).ok
