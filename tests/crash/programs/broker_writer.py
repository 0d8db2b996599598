"""Writes through a broker at random until it is killed: topics of partitions, batches into all of them, groups.

It says what it begins, and where what it has appended stands, as `log_writer` does. What that means is the business of
`broker_ledger`.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from seglog import Broker
from seglog.log.staging import Stage
from seglog.storage import LocalStorage
from tests.crash.programs.tokens import key_of, table_of, value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seglog import Topic
    from tests.crash.programs.zygote import Say

TOPIC, PARTITIONS, KEYS, GROUP, QUERY = "orders", 4, 16, "readers", "stream"
MIX = {"append": 20, "append_once": 20, "batch_once": 12, "repeat": 6, "publish": 6, "commit": 12, "compact_groups": 2}


def append_once(topic: Topic, first: int, count: int) -> dict[int, range]:
    """Append records under an idempotency key of theirs, now or once more; return where they stand."""
    if count > 1:
        return topic.append_batch(table_of(range(first, first + count), KEYS), once=f"batch {first}")
    partition, offset = topic.append(
        value_of(first, KEYS), key=key_of(first, KEYS), timestamp=first, once=f"record {first}"
    )
    return {partition: range(offset, offset + 1)}


class Writer:
    """The broker, and what comes next."""

    def __init__(self, say: Say, request: dict[str, Any]) -> None:
        self.say = say
        self.draw = random.Random(request["seed"])
        self.token: int = request["token"]
        self.batch: int = request["batch"]
        self.done: list[tuple[int, int]] = []
        say(do="open")
        self.broker = Broker(request["path"])
        self.topic = self.broker.topic(TOPIC)
        say(did="open")

    def take(self, count: int) -> int:
        """Return the first of so many tokens that no record has had."""
        self.token += count
        return self.token - count

    def did(self, what: str, places: Mapping[int, range]) -> None:
        self.say(did=what, places={number: [offsets.start, offsets.stop] for number, offsets in places.items()})

    def append(self) -> None:
        first = self.take(1)
        self.say(do="append", token=first, count=1)
        partition, offset = self.topic.append(value_of(first, KEYS), key=key_of(first, KEYS), timestamp=first)
        self.did("append", {partition: range(offset, offset + 1)})

    def append_once(self) -> None:
        self._once(self.take(1), 1)

    def batch_once(self) -> None:
        count = self.draw.choice([2, 2, 9, 120])
        self._once(self.take(count), count)

    def repeat(self) -> None:
        """Do one of the last once more, as a client does that has not heard the answer."""
        if self.done:
            self._once(*self.draw.choice(self.done[-20:]))

    def _once(self, first: int, count: int) -> None:
        self.say(do="once", token=first, count=count)
        self.did("once", append_once(self.topic, first, count))
        self.done.append((first, count))

    def publish(self) -> None:
        """A batch into most partitions."""
        staged, rows, first = {}, [self.draw.choice([0, 1, 8, 60]) for _ in range(PARTITIONS)], self.token
        for number, count in enumerate(rows):
            stage = Stage(LocalStorage(self.topic.path / str(number)), f"{QUERY}-{self.batch}")
            stage.append_batch(table_of(range(self.take(count), self.token), KEYS))
            staged[number] = stage.finish()
        self.say(do="publish", token=first, count=self.token - first, rows=rows, batch=self.batch)
        places = self.topic.publish(staged, query=QUERY, batch=self.batch)
        assert places is not None
        self.did("publish", places)
        self.batch += 1

    def commit(self) -> None:
        logs = [self.topic.partition(number) for number in range(PARTITIONS)]
        offsets = {number: self.draw.randint(0, log.next_offset) for number, log in enumerate(logs)}
        self.say(do="commit", offsets=offsets)
        self.broker.groups.commit(GROUP, {TOPIC: offsets}, durable=self.draw.random() < 0.2)
        self.say(did="commit")

    def compact_groups(self) -> None:
        self.say(do="nothing")
        self.broker.logs()[".groups"].compact(roll=True)
        self.say(did="nothing")


def run(say: Say, request: dict[str, Any]) -> None:
    """Write until killed."""
    writer = Writer(say, request)
    while True:
        [what] = writer.draw.choices([*MIX], [*MIX.values()])
        getattr(writer, what)()
