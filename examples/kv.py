"""A small key-value store with a write-ahead log: what it has acknowledged survives kill -9 and power loss.

    python examples/kv.py DIRECTORY serve       # reads "set KEY VALUE", "delete KEY" and "get KEY" from stdin
    python examples/kv.py DIRECTORY dump

The store is a dict in memory. A change is first appended to the log and synced, and then applied. After every 64 KiB of
changes the store writes a snapshot. Retention lets the log delete its oldest segments; it always keeps many times what
is written between two snapshots. After a crash, the store is the newest snapshot and the records after it.
"""

from __future__ import annotations

import json
import sys

import seglog

CHECKPOINT_BYTES = 64 * 1024
CONFIG = seglog.LogConfig(
    segment_bytes=4 * CHECKPOINT_BYTES,
    flush_records=1,  # an append returns when it is on the disk
    retention=seglog.Retention(bytes=16 * CHECKPOINT_BYTES),  # with the newest two snapshots, nothing is missing
)


class Changes:
    """The state machine: a dict, and records that set a key, or delete it (tombstones)."""

    def initial(self) -> dict[str, str]:
        """Return the empty store."""
        return {}

    def apply(self, state: dict[str, str], record: seglog.Record) -> dict[str, str]:
        """Set or delete a key."""
        key = (record.key or b"").decode()
        if record.value is None:
            state.pop(key, None)
        else:
            state[key] = record.value.decode()
        return state

    def encode(self, state: dict[str, str]) -> bytes:
        """Return the store as JSON."""
        return json.dumps(state).encode()

    def decode(self, data: bytes) -> dict[str, str]:
        """Return the store that `encode` wrote."""
        state: dict[str, str] = json.loads(data)
        return state


class Store:
    """A key-value store in a directory. One process at a time."""

    def __init__(self, directory: str) -> None:
        """Open the store; recover it if the last process was killed."""
        self._snapshots = f"{directory}/snapshots"
        self._log = seglog.open(f"{directory}/wal", CONFIG)
        self._now = seglog.replay(self._log, Changes(), snapshots=self._snapshots)
        self.recovered = self._now.records
        self._since = 0

    def get(self, key: str) -> str | None:
        """Return a value."""
        return self._now.state.get(key)

    def set(self, key: str, value: str | None) -> None:
        """Set a value of up to CHECKPOINT_BYTES, or delete it (None). It is on the disk when this returns."""
        size = len(key.encode()) + len((value or "").encode())
        if size > CHECKPOINT_BYTES:
            raise ValueError(f"{size} bytes are too many: retention could delete changes that no snapshot has")
        self._log.append(None if value is None else value.encode(), key=key.encode())
        self._now = seglog.replay(self._log, Changes(), start=self._now)  # the state changes only by the log
        self._since += size
        if self._since >= CHECKPOINT_BYTES:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Store a snapshot. The log expires old segments by itself when it rolls."""
        seglog.replay(self._log, Changes(), start=self._now, snapshots=self._snapshots)
        self._since = 0

    def items(self) -> dict[str, str]:
        """Return everything."""
        return dict(self._now.state)

    def close(self) -> None:
        """Close the log."""
        self._log.close()


def serve(store: Store) -> None:
    """Execute the commands of stdin; acknowledge each one with a line."""
    for line in sys.stdin:
        command, key, *rest = line.rstrip("\n").split(" ", 2)
        if command == "get":
            print(store.get(key), flush=True)
        else:
            store.set(key, rest[0] if command == "set" else None)
            print("ok", flush=True)


def main(directory: str, command: str) -> None:
    """Serve, or print everything as JSON."""
    store = Store(directory)
    if command == "serve":
        print(f"{store.recovered} changes recovered from the log", flush=True)
        serve(store)
    else:
        print(json.dumps(store.items()))
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
