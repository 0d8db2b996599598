"""What a broker's topic and group must hold after its process was killed, kept by the parent from the writer's lines.

Every token stands in one place, that which was acknowledged. Of the last call: an append under an idempotency key is
made once more by the parent, and is there once; a batch published into many partitions is there whole or not at all;
a commit of many offsets as well. Compares, and repeats; starts nothing.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from seglog.errors import GroupNotFound
from seglog.topic.partitioner import partition_of
from tests.crash.programs.broker_writer import GROUP, KEYS, PARTITIONS, QUERY, TOPIC, append_once
from tests.crash.programs.tokens import key_of, token_of

if TYPE_CHECKING:
    from seglog import Broker, Topic

Place = tuple[int, int]
"""Partition and offset."""


def stored(topic: Topic) -> dict[int, Place]:
    """Return the offset of each token; AssertionError if one occurs twice or offsets have gaps."""
    found: dict[int, Place] = {}
    for number in range(PARTITIONS):
        log = topic.partition(number)
        assert not log.recovery.damaged, log.recovery.events
        for offset, record in enumerate(log.scan()):
            token = token_of(record, KEYS)
            assert record.offset == offset
            assert token not in found, f"token {token} is stored twice: at {found[token]} and {number, offset}"
            found[token] = number, offset
    return found


class BrokerLedger:
    """placed: token -> its partition and offset; committed: partition -> offset of the group."""

    def __init__(self) -> None:
        self.placed: dict[int, Place] = {}
        self.committed: dict[int, int] = {}
        self.pending: dict[str, Any] | None = None
        self.token = self.batch = 0
        self.counts = dict.fromkeys(("acknowledged", "in_flight", "completed", "repeated"), 0)

    def hear(self, line: dict[str, Any]) -> None:
        """Take in one line of the writer."""
        if "do" in line:
            self.pending = line
            self.token = max(self.token, line.get("token", 0) + line.get("count", 0))
            return
        pending, self.pending = self.pending, None
        assert pending is not None and pending["do"] == line["did"], (pending, line)
        places = {int(number): range(*offsets) for number, offsets in line.get("places", {}).items()}
        self.counts["acknowledged"] += pending.get("count", 1)
        self._done(pending, places)

    def _done(self, pending: dict[str, Any], places: dict[int, range]) -> None:
        """Note what took place."""
        if pending["do"] == "commit":
            self.committed = _committed(pending)
        if pending["do"] == "publish":
            self.batch = pending["batch"] + 1
        shares = _shares(pending)
        assert {number: len(offsets) for number, offsets in places.items() if offsets} == {
            number: len(tokens) for number, tokens in shares.items()
        }, f"{pending} was said to stand at {places}"
        for number, tokens in shares.items():
            for token, offset in zip(tokens, places[number], strict=True):
                place = number, offset
                assert self.placed.setdefault(token, place) == place, f"repeated, token {token} stands at {place}"

    # --- comparing --------------------------------------------------------------------------------------------------

    def settle(self, broker: Broker) -> None:
        """Compare with what the next opening finds, and repeat what was not answered."""
        topic, pending = broker.topic(TOPIC), self.pending
        found = stored(topic)
        if pending is not None:
            self.pending = None
            self.counts["in_flight"] += 1
            self._settle_pending(pending, broker, found)
            found = stored(topic) if pending["do"] == "once" else found
        lost = {token: place for token, place in self.placed.items() if found.get(token) != place}
        assert not lost, f"lost: {lost}"
        assert found == self.placed, f"invented: {found.items() - self.placed.items()}"
        assert committed_by(broker) == self.committed
        assert broker.recovered == (), broker.recovered

    def _settle_pending(self, pending: dict[str, Any], broker: Broker, before: dict[int, Place]) -> None:
        topic, what = broker.topic(TOPIC), pending["do"]
        tokens = range(pending.get("token", 0), pending.get("token", 0) + pending.get("count", 0))
        found = {token: place for token, place in before.items() if token in tokens}
        if what == "once":
            places = append_once(topic, tokens.start, len(tokens))
            self.counts["repeated"] += 1
            self._done(pending, places)
            moved = {token: place for token, place in found.items() if self.placed[token] != place}
            assert not moved, f"the repeated append says they stand elsewhere: {moved}"
        elif what == "commit":
            said = committed_by(broker)
            assert said in (self.committed, _committed(pending)), f"a part of {pending} is there: {said}"
            self.committed = said
        else:
            assert len(found) in (0, len(tokens)), f"a part of {pending} is there: {sorted(found)}"
            if what == "publish":
                is_last = topic.published(QUERY) == pending["batch"]
                assert is_last == (len(found) > 0) or not tokens
                self.batch = pending["batch"] + is_last
            self.placed |= found
        self.counts["completed"] += len(found) == len(tokens)


def _committed(pending: dict[str, Any]) -> dict[int, int]:
    return {int(number): offset for number, offset in pending["offsets"].items()}


def committed_by(broker: Broker) -> dict[int, int]:
    """Return partition -> what the group has committed."""
    try:
        return broker.groups.committed(GROUP).get(TOPIC, {})
    except GroupNotFound:
        return {}


def _shares(pending: dict[str, Any]) -> dict[int, list[int]]:
    """Return partition -> the tokens of a call in the order in which they stand there."""
    first = pending.get("token", 0)
    tokens, shares = iter(range(first, first + pending.get("count", 0))), {}
    for number, rows in enumerate(pending.get("rows", ())):
        shares[number] = list(islice(tokens, rows))
    for token in tokens:
        shares.setdefault(partition_of(key_of(token, KEYS) or b"", PARTITIONS), []).append(token)
    return {number: share for number, share in shares.items() if share}
