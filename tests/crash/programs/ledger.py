"""What a log must hold after its writer was killed, kept by the parent from the writer's lines. Starts nothing.

`held` is what was acknowledged: offset -> token. What was begun and not acknowledged may be there or not: a record or a
batch of one segment whole or not at all, a larger one up to the end of a segment, a cut or a change of retention
altogether. Compaction may take what a later record of its key supersedes, expiry the oldest segments down to what
retention keeps; nothing else may be missing, and nothing else may be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xxhash import xxh64_intdigest

from tests.crash.programs.tokens import key_of, length_of, token_of, value_of

if TYPE_CHECKING:
    import seglog


class Ledger:
    """keys: how many different ones there are, 0 for none; keeps_tombstones: whether no compaction may drop them.

    strict: indices must be whole as well; they are derived, so where their writes were refused they need not be.
    """

    def __init__(self, *, keys: int, segment_bytes: int, keeps_tombstones: bool, strict: bool = True) -> None:
        self.keys = keys
        self.segment_bytes = segment_bytes
        self.keeps_tombstones = keeps_tombstones
        self.strict = strict
        self.held: dict[int, int] = {}
        self.gone: set[int] = set()
        self.lowest = self.next = 0
        self.bytes_kept: int | None = None
        self.pending: dict[str, Any] | None = None
        self.token = self.batch = 0
        self.counts = dict.fromkeys(("acknowledged", "truncates", "in_flight", "completed", "passes", "refused"), 0)

    # --- listening --------------------------------------------------------------------------------------------------

    def hear(self, line: dict[str, Any]) -> None:
        """Take in one line of the writer."""
        if "do" in line:
            self.pending = line
            self.token = max(self.token, line.get("token", 0) + line.get("count", 0))
            self.counts["truncates"] += line["do"] == "truncate"
        elif "did" in line:
            self._acknowledge(line)
        elif "refused" in line:
            self._refuse(line)
        elif "went" in line:
            self.counts["passes"] += 1

    def _acknowledge(self, line: dict[str, Any]) -> None:
        pending, self.pending = self.pending, None
        assert pending is not None and pending["do"] == line["did"], (pending, line)
        added = pending.get("count", 0)
        self._do(pending, added)
        self.counts["acknowledged"] += max(added, 1)
        assert line["next"] == self.next, f"{line}: the next offset was to be {self.next}"
        self._expired_to(line["lowest"], line["size"])

    def _refuse(self, line: dict[str, Any]) -> None:
        """Note that a call raised: it had no effect, or with a poisoned writer an unknown one."""
        self.counts["refused"] += 1
        if not line["poisoned"]:
            self.pending = None

    def _do(self, pending: dict[str, Any], added: int) -> None:
        """Note that what was begun took place, with so many of its records."""
        for token in range(pending.get("token", 0), pending.get("token", 0) + added):
            self.held[self.next] = token
            self.next += 1
        if pending["do"] == "truncate":
            for offset in range(pending["cut"], self.next):
                self.held.pop(offset, None)
                self.gone.discard(offset)
            self.next = pending["cut"]
        elif pending["do"] == "alter":
            self.bytes_kept = pending["bytes"]
        elif pending["do"] == "publish":
            self.batch = pending["batch"] + 1

    def _expired_to(self, lowest: int, size: int) -> None:
        if lowest != self.lowest:
            assert lowest > self.lowest, f"the log began at {self.lowest}, and begins at {lowest}"
            assert self.bytes_kept is not None and size >= self.bytes_kept, (
                f"{size} bytes are left of {self.bytes_kept}"
            )
        for offset in range(self.lowest, lowest):
            self.held.pop(offset, None)
        self.lowest = lowest

    # --- comparing --------------------------------------------------------------------------------------------------

    def settle(self, log: seglog.Log) -> int:
        """Compare with the log as its next opening finds it; return a digest of what it holds.

        AssertionError where something acknowledged is lost or something is there that was never written.
        """
        assert not log.recovery.damaged, log.recovery.events
        records = list(log.scan())
        found = {record.offset: token_of(record, self.keys) for record in records}
        assert list(found) == sorted(found)
        if self.pending is not None:
            self._settle_pending(log)
        assert log.next_offset == self.next, f"the log ends at {log.next_offset}; acknowledged up to {self.next}"
        self._expired_to(log.lowest_offset, log.size)
        self._compare(found)
        problems = [problem for problem in log.verify().problems if self.strict or problem.kind != "index"]
        assert not problems, problems
        return xxh64_intdigest(repr([*found.items()]).encode())

    def _settle_pending(self, log: seglog.Log) -> None:
        """Take as done what of the last call the log shows, if it may be so."""
        pending, self.pending = self.pending, None
        assert pending is not None
        self.counts["in_flight"] += 1
        what, count = pending["do"], pending.get("count", 0)
        if what == "alter":
            kept = log.config.retention.bytes
            assert kept in (pending["bytes"], self.bytes_kept), f"retention.bytes is {kept}"
            self.bytes_kept = kept
        elif what == "truncate":
            done = log.next_offset != self.next
            assert log.next_offset in (self.next, pending["cut"]), f"the log ends at {log.next_offset}: {pending}"
            if done:
                self._do(pending, 0)
            self.counts["completed"] += done
        elif count:
            self._settle_added(pending, log, log.next_offset - self.next)

    def _settle_added(self, pending: dict[str, Any], log: seglog.Log, added: int) -> None:
        count, whole = pending["count"], added in (0, pending["count"])
        assert 0 <= added <= count, f"{added} records are there of {pending}, which began at {self.next}"
        assert whole or pending["do"] == "large_batch", f"{added} records are there of {pending}"
        if not whole:
            room = self.segment_bytes - log.segments[-1].bytes
            following = length_of(pending["token"] + added, self.keys)
            assert following > room or log.segments[-1].records == 0, f"{added} of {pending} end within a segment"
        if pending["do"] == "publish":
            said = log.published("stream")
            assert (said == pending["batch"]) == (added > 0), f"{said} was published last, {added} records of {pending}"
        if added:
            self._do(pending, added)
        self.counts["completed"] += added == count

    def _compare(self, found: dict[int, int]) -> None:
        held = {offset: token for offset, token in self.held.items() if offset not in self.gone}
        invented = {offset: token for offset, token in found.items() if held.get(offset) != token}
        assert not invented, f"never written there, or gone before: {invented}"
        missing = sorted(held.keys() - found.keys())
        assert self.keys or not missing, f"lost: {missing}"
        if missing:
            latest = {key_of(token, self.keys): offset for offset, token in sorted(self.held.items())}
            lost = [offset for offset in missing if not self._may_go(offset, latest)]
            assert not lost, f"lost: {lost}"
            self.gone.update(missing)

    def _may_go(self, offset: int, latest: dict[bytes | None, int]) -> bool:
        token = self.held[offset]
        if latest[key_of(token, self.keys)] != offset:
            return True
        return value_of(token, self.keys) is None and not self.keeps_tombstones
