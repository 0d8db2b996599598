"""A reader beside writers that come and go: it follows, remembers what it saw where, and looks at it again.

An offset never changes its record unless the log was truncated, and then a clear error says so. Words it is sent:
"on" (look some more), "caught up" (read to the end and tell what is there); it answers each with its counts.
"""

from __future__ import annotations

import random
import select
from typing import TYPE_CHECKING, Any

from xxhash import xxh64_intdigest

import seglog
from tests.crash.programs.tokens import token_of

if TYPE_CHECKING:
    from tests.crash.programs.zygote import Say

PAUSE_SECONDS = 0.002


class Reader:
    """seen: offset -> token of what the tail has given, and is still part of the log."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.draw = random.Random(request["seed"])
        self.keys: int = request["keys"]
        self.log = seglog.open(request["path"], mode="r", expose=request["expose"])
        self.counts = {"checks": 0, "truncated": 0, "overtaken": 0}
        self.seen: dict[int, int] = {}
        self.begin()

    def begin(self) -> None:
        """Restart at the first record: records seen before may no longer be in the log."""
        self.seen.clear()
        while True:
            try:
                self.tail = self.log.tail(self.log.lowest_offset)
                return
            except seglog.OffsetOutOfRange:  # retention went on between the two
                continue

    def poll(self) -> bool:
        """Read the new records; False if an error reported that the log was replaced, and reading restarted."""
        before = self.tail.position
        try:
            records = self.tail.poll(500)
        except seglog.LogTruncated:
            self.counts["truncated"] += 1
            self.begin()
            return False
        except seglog.OffsetOutOfRange:
            self.counts["overtaken"] += 1
            self.begin()
            return False
        for record in records:
            assert record.offset >= before, f"offset {record.offset} after {before - 1}"
            self.seen[record.offset] = token_of(record, self.keys)
            before = record.offset + 1
        self.counts["checks"] += len(records)
        return True

    def demand(self, is_true: bool, what: str) -> None:
        """Check what holds for a log that was not cut; if it was, the tail must have reported it."""
        self.counts["checks"] += 1
        assert is_true or not self.poll(), what

    def look_again(self) -> None:
        """Read something that was seen, by one of the ways of reading."""
        offsets = list(self.seen)
        if not offsets:
            return
        first = self.draw.choice(offsets)
        if self.draw.random() < 0.8:
            self._read(first)
        else:
            self._read_range(first, first + self.draw.randint(1, 100))
        self.demand(self.log.next_offset >= self.tail.position, "the log ends before what was read, and nobody said so")

    def _read(self, offset: int) -> None:
        expected = self.seen[offset]
        try:
            found = token_of(self.log.read(offset), self.keys)
        except seglog.OffsetCompacted:
            self.demand(bool(self.keys), f"offset {offset} was seen, and is gone without compaction")
        except seglog.NotDurableYet:
            self.demand(False, f"offset {offset} was seen as durable, and is not")
        except seglog.OffsetOutOfRange as error:
            if offset >= error.lowest_offset:
                self.demand(False, f"offset {offset} was seen, and the log ends before it")
            else:
                del self.seen[offset]
        else:
            self.demand(found == expected, f"offset {offset} held {expected}, and now {found}")

    def _read_range(self, start: int, stop: int) -> None:
        try:
            batch = self.log.to_arrow(start, stop)
        except (seglog.OffsetOutOfRange, seglog.NotDurableYet):
            self.demand(False, f"offset {start} was seen, and the log ends before it")
            return
        pairs = zip(batch["offset"].to_pylist(), batch["timestamp"].cast("int64").to_pylist(), strict=True)
        others = {at: (token, self.seen[at]) for at, token in pairs if self.seen.get(at, token) != token}
        self.demand(not others, f"these offsets held others: {others}")

    def catch_up(self) -> dict[str, Any]:
        """Read to the end of a log without a writer; return that offset and a digest of all records."""
        while not self.poll() or self.tail.position < self.log.next_offset:
            if self.tail.position >= self.log.next_offset:
                break
        records = list(self.log.scan())
        found = [(record.offset, token_of(record, self.keys)) for record in records]
        wrong = {at: token for at, token in found if self.seen.get(at, token) != token}
        assert not wrong, f"these offsets held others: {wrong}"
        self.counts["checks"] += len(found)
        return {"next": self.log.next_offset, "digest": xxh64_intdigest(repr(found).encode())}


def run(say: Say, request: dict[str, Any]) -> None:
    """Follow until the words end."""
    reader = Reader(request)
    say(**reader.counts)
    while True:
        word = say.wait() if select.select([say.heard], [], [], PAUSE_SECONDS)[0] else None
        if word == "":
            return
        if word == "caught up":
            say(**reader.counts, **reader.catch_up())
        reader.poll()
        reader.look_again()
