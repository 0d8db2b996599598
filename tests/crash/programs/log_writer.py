"""A writer that does random operations of a log until it is killed. It prints what it begins, and what is done.

Each line with "do" is followed by one with "did" once the call has returned: that is the acknowledgement. What these
lines mean for the contents of the log is decided by `ledger`.
"""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import seglog
from seglog import LogConfig, Retention
from seglog.log.staging import Stage
from seglog.storage import LocalStorage
from tests.crash.programs.tokens import chunks_of, key_of, length_of, table_of, value_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.crash.programs.zygote import Say

QUERY = "stream"
LARGE = 100_000
"""Bytes of segments from which on some batches are of hundreds of records."""
MIX = {
    "append": 26,
    "append_synced": 8,
    "stream": 8,
    "stream_fails": 3,
    "batch": 8,
    "large_batch": 4,
    "publish": 4,
    "truncate": 4,
    "expire": 3,
    "alter": 3,
    "reopen": 2,
    "sync": 2,
    "pin": 2,
    "compress": 3,
}
KEYED_MIX = MIX | {"compact": 3, "compact_beside": 6}


class SourceFailed(Exception):
    """What the source of a stream raises here."""


def config_of(request: dict[str, Any]) -> LogConfig:
    """Return a log's config by what a round has drawn."""
    kept = Retention(
        bytes=request.get("retention_bytes"),
        compact=bool(request["keys"]),
        delete_retention=request.get("delete_retention", 3600),
        dedupe_bytes=request.get("dedupe_bytes", 2**20),
    )
    return LogConfig(
        segment_bytes=request["segment_bytes"],
        flush_records=request.get("flush_records"),
        index_interval_bytes=64,
        segment_overflow_bytes=2048,
        open_segments_max=4,
        retention=kept,
        allocate_bytes=request.get("allocate_bytes", 0),
    )


class Writer:
    """The log, and what comes next."""

    def __init__(self, say: Callable[..., None], request: dict[str, Any]) -> None:
        self.say = say
        self.draw = random.Random(request["seed"])
        self.path = request["path"]
        self.keys: int = request["keys"]
        self.token: int = request["token"]
        self.batch: int = request["batch"]
        self.config = config_of(request)
        self.beside: threading.Thread | None = None

    def open(self, config: LogConfig | None = None) -> None:
        """Open the log, which recovers what the one before has left."""
        self.begin("open")
        self.log = seglog.open(self.path, config)
        self.did("open")

    def did(self, what: str, **more: Any) -> None:
        """Acknowledge."""
        log = self.log
        self.say(did=what, lowest=log.lowest_offset, next=log.next_offset, size=log.size, **more)

    def take(self, count: int) -> range:
        """Return tokens that no record has had."""
        self.token += count
        return range(self.token - count, self.token)

    def begin(self, what: str, tokens: range = range(0), **more: Any) -> None:
        """Say what is begun, and which records it is to add."""
        self.say(do=what, token=tokens.start, count=len(tokens), **more)

    # --- adding -----------------------------------------------------------------------------------------------------

    def append(self, *, synced: bool = False) -> None:
        tokens = self.take(1)
        self.begin("append", tokens)
        token = tokens.start
        self.log.append(value_of(token, self.keys), key=key_of(token, self.keys), timestamp=token)
        if synced:
            self.log.sync()
            assert self.log.durable_offset == self.log.next_offset
        self.did("append")

    def append_synced(self) -> None:
        self.append(synced=True)

    def stream(self) -> None:
        tokens = self.take(2)
        token = next(token for token in tokens if value_of(token, self.keys) is not None)
        self.begin("append", range(token, token + 1))
        self.log.append_stream(chunks_of(token, self.keys, self.draw), key=key_of(token, self.keys), timestamp=token)
        self.did("append")

    def stream_fails(self) -> None:
        def source() -> Any:
            yield b"never " * self.draw.randint(1, 50)
            raise SourceFailed

        self.begin("nothing")
        try:
            self.log.append_stream(source(), key=b"k0")
        except (SourceFailed, seglog.StreamOverflow):
            self.did("nothing")

    def batch_of(self, rows: int, what: str) -> None:
        tokens = self.take(rows)
        self.begin(what, tokens)
        self.log.append_batch(table_of(tokens, self.keys))
        self.did(what)

    def small_batch(self) -> None:
        room = self.config.segment_bytes - 64
        rows = 1000 if room > LARGE and self.draw.random() < 0.1 else self.draw.randint(1, 12)
        while sum(length_of(self.token + row, self.keys) for row in range(rows)) > room:
            rows //= 2  # so that it fits one segment, and is to be there whole or not at all
        self.batch_of(max(rows, 1), "batch")

    def large_batch(self) -> None:
        self.batch_of(self.draw.randint(30, 90), "large_batch")

    def publish(self) -> None:
        stage = Stage(LocalStorage(self.path), f"{QUERY}-{self.batch}")
        tokens = self.take(self.draw.randint(1, 60))
        stage.append_batch(table_of(tokens, self.keys))
        staged = stage.finish()
        self.begin("publish", tokens, batch=self.batch)
        assert self.log.publish(staged, query=QUERY, batch=self.batch) is not None
        self.did("publish")
        self.begin("nothing")
        assert self.log.publish(staged, query=QUERY, batch=self.batch) is None
        stage.discard()
        self.did("nothing")
        self.batch += 1

    # --- the rest ---------------------------------------------------------------------------------------------------

    def truncate(self) -> None:
        """Cut anywhere; where keys count only in the last segment, so that what cut records superseded is there."""
        lowest = self.log.segments[-1].base_offset if self.keys else self.log.lowest_offset
        cut = max(lowest, self.log.next_offset - int(self.draw.expovariate(1 / 40)))
        self.begin("truncate", cut=cut)
        self.log.truncate(cut)
        self.did("truncate")

    def expire(self) -> None:
        self.begin("nothing")
        self.log.expire()
        self.did("nothing")

    def alter(self) -> None:
        kept = None if self.keys else self.draw.choice([None, 10_000, 30_000])
        retention = replace(self.log.config.retention, bytes=kept, min_dirty_ratio=self.draw.random())
        self.begin("alter", bytes=kept)
        self.log.alter(retention=retention)
        self.did("alter")

    def reopen(self) -> None:
        self.end_compaction()
        self.begin("nothing")
        self.log.close()
        flush = self.draw.choice([None, 1, 5])
        self.log = seglog.open(self.path, replace(self.log_config(), flush_records=flush))
        assert self.log.recovery.clean, self.log.recovery.events
        self.did("nothing")

    def log_config(self) -> LogConfig:
        with seglog.open(self.path, mode="r") as reader:
            return reader.config

    def sync(self) -> None:
        self.begin("nothing")
        self.log.sync()
        self.did("nothing")

    def pin(self) -> None:
        self.begin("nothing")
        if self.draw.random() < 0.5:
            self.log.pin("follower", self.draw.randint(self.log.lowest_offset, self.log.next_offset))
        else:
            self.log.unpin("follower")
        self.did("nothing")

    def compact(self) -> None:
        self.end_compaction()
        self.begin("compact")
        assert self.log.compact(roll=True).damaged == ()
        self.did("compact")

    def compress(self) -> None:
        self.end_compaction()
        self.begin("compress")
        assert self.log.compress(self.draw.choice(["lz4", "zstd", "none"])).damaged == ()
        self.did("compress")

    def compact_beside(self) -> None:
        """Let a compaction run while the others go on; it is over when it is."""
        if self.beside is None or not self.beside.is_alive():
            self.beside = threading.Thread(target=self._compaction)
            self.beside.start()

    def _compaction(self) -> None:
        try:
            self.say(beside="begun")
            report = self.log.compact(generational=self.token % 2 == 0)
            self.say(beside="over", went=report.superseded + report.tombstones)
        except seglog.CompactionAborted:
            self.say(beside="aborted", went=0)

    def end_compaction(self) -> None:
        if self.beside is not None:
            self.beside.join()


def run(say: Say, request: dict[str, Any]) -> None:
    """Write until killed; with "hold" wait for a word before."""
    writer = Writer(say, request)
    writer.open()
    if request["hold"]:
        say(held=True)
        say.wait()
    names = {"batch": "small_batch"}
    mix = KEYED_MIX if writer.keys else MIX
    while True:
        [what] = writer.draw.choices([*mix], [*mix.values()])
        getattr(writer, names.get(what, what))()
