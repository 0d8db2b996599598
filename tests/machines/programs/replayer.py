"""Replays a log with a snapshot every 1,024 records; prints each one once it is durable, and the state at the end.

python replayer.py LOG SNAPSHOTS
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

import seglog
from seglog.machines.snapshots import SnapshotShelf
from tests.machines.machines import Chain

original = SnapshotShelf.write


def write(shelf: SnapshotShelf, trace: object, offset: int, *rest: object) -> None:
    original(shelf, trace, offset, *rest)  # type: ignore[arg-type] # passed on as they are
    print(f"stored {offset}", flush=True)


SnapshotShelf.write = write  # type: ignore[method-assign,assignment] # to report what is durable
log, states = sys.argv[1:]
print("began", flush=True)
found = seglog.replay(log, Chain(), snapshots=seglog.Snapshots(states, every=1024))
print(f"end {found.state}", flush=True)
