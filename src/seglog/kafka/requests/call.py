"""One request as its handler gets it: values, sender, and the parts of the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from seglog.errors import TopicNotFound
from seglog.kafka.faults import NoSuchPartition
from seglog.kafka.groups.coordinator import Coordinator
from seglog.kafka.producers.registry import Producers
from seglog.kafka.producers.sequences import NO_OWNER
from seglog.kafka.requests.turns import in_turns
from seglog.kafka.topic_ids import TopicIds
from seglog.kafka.transactions.transactions import Transactions
from seglog.server.runtime.shares import owner_of
from seglog.topic.layout.names import MAX_NAME, is_name
from seglog.topic.layout.places import Partition

if TYPE_CHECKING:
    from seglog.kafka.requests.holding import Holding
    from seglog.kafka.settings import KafkaSettings
    from seglog.log.log import Log
    from seglog.server.rights.access import Caller, Right
    from seglog.server.runtime.memory import Claim
    from seglog.server.services import Services
    from seglog.topic.topic import Topic

Values = dict[str, Any]
ENTRY_BYTES = 1024
"""About what a structure of an answer takes, as a value and encoded, without long strings."""


@dataclass(slots=True, eq=False)
class Parts:
    """What all connections share."""

    services: Services
    settings: KafkaSettings
    coordinator: Coordinator
    producers: Producers
    transactions: Transactions
    topic_ids: TopicIds


@dataclass(slots=True, eq=False, weakref_slot=True)
class Sender:
    """The client at the other end of a connection.

    Attributes:
        address: Where it connected to, host and port.
        host: Its own address.
        caller: What its token allows; None until it has authenticated.
        mechanism: Of SASL, once it has chosen one.
        client_id: What it calls itself.
        port: Of its own address.
        number: Of the connection; later ones have greater numbers.
        connected_at: When it connected, in us.
        used_at: When its last request came, in us.
        requests: How many it has sent.
        software, software_version: Its library, if it has named it.
    """

    address: tuple[str, int]
    host: str
    caller: Caller | None
    mechanism: str | None = None
    client_id: str = ""
    port: int = 0
    number: int = 0
    connected_at: int = 0
    used_at: int = 0
    requests: int = 0
    software: str = ""
    software_version: str = ""


@dataclass(slots=True, eq=False)
class Call:
    """A request.

    Attributes:
        held: Released when the response has been sent.
        read_on: Lets the client's next request be read before this one is answered; for what waits and keeps none of
            the request's memory.
        free: Releases the memory that the request came in, when none of its values has any of it; see `drop_values`.
        sent: Called when the response has been written, unless the client is gone.
        holding: What it holds of the memory for all clients as values, with those of its answer.
        claims: What else it holds of that memory.
    """

    parts: Parts
    sender: Sender
    version: int
    values: Values
    read_on: Callable[[], None]
    free: Callable[[], None]
    holding: Holding
    held: ExitStack = field(default_factory=ExitStack)
    sent: Callable[[], None] | None = None
    claims: list[Claim] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hold(self.holding.claim)

    async def room(self, more: int) -> None:
        """Claim `more` bytes for what is about to be added to the answer. Raises Busy if there is no memory in time."""
        await self.holding.room(more)

    def drop_values(self) -> None:
        """Hold nothing of the request any more, before a long wait: its values are gone."""
        self.holding.release()
        self.free()

    def hold(self, claim: Claim) -> None:
        """Release a claim when the response has been sent."""
        self.claims.append(claim)
        self.held.callback(claim.close)

    @property
    def is_wanted(self) -> bool:
        """Whether it holds memory that other requests need."""
        return any(one.is_wanted for one in self.claims)

    @property
    def services(self) -> Services:
        """The parts of the server."""
        return self.parts.services

    @property
    def caller(self) -> Caller:
        """What the sender may do."""
        assert self.sender.caller is not None  # noqa: S101 - dispatch lets only authenticated senders in
        return self.sender.caller

    @property
    def payer(self) -> str:
        """Whose share what is kept for the sender counts against: its token, or its address if there are no tokens."""
        return self.caller.name if self.services.access.asks else self.sender.host

    def producer_owner(self, token: str) -> str:
        """Return the owner of a producer that uses a token: its id of another token is another producer."""
        return owner_of(token) if self.services.access.asks else NO_OWNER

    @property
    def advertised(self) -> tuple[str, int]:
        """The host and port that clients should connect to."""
        return self.parts.settings.advertised or self.sender.address

    async def log(self, topic: str, partition: int, right: Right) -> Log:
        """Return the log of a partition.

        Raises:
            Forbidden: The sender does not have the right on the topic.
            TopicNotFound: There is no such topic or partition.
        """
        return log_of(await self.topic(topic, right), partition)

    async def topic(self, name: str, right: Right) -> Topic:
        """Return a topic; errors as `log`."""
        if len(name) > MAX_NAME:  # errors repeat the name for each partition
            raise TopicNotFound(f"{name[:MAX_NAME]}...")
        self.caller.require(right, name)
        services = self.parts.services
        found = services.broker.if_open(name)
        if found is not None:
            return found
        if not is_name(name):
            raise TopicNotFound(name)
        return await services.reads.run(partial(services.broker.topic, name))

    async def name_of(self, uuid: str) -> str | None:
        """Return the name of the topic with an id, None if there is none."""
        ids = self.parts.topic_ids
        return ids.known(uuid) or await self.services.reads.run(partial(ids.search, uuid))

    async def named(self, topics: list[Values], key: str = "name") -> list[Values]:
        """Return what a request has for topics, with their names also if it has ids; None for one that is unknown.

        key: what the request calls a topic's name.
        """
        return [
            one if one.get("topic_id") is None else {**one, key: await self.name_of(one["topic_id"])} for one in topics
        ]

    async def each_partition(self, answer: Answer, topic: str = "name") -> Values:
        """Return the response of a request that names partitions of topics. topic: what it calls a topic's name."""
        return {
            "topics": [
                {
                    topic: one[topic],
                    "partitions": [await answer(self, one[topic], each) async for each in in_turns(one["partitions"])],
                }
                async for one in in_turns(self.values["topics"])
            ]
        }


def by_topic(places: Iterable[Partition]) -> dict[str, list[int]]:
    """Return the numbers of partitions, by topic."""
    found: dict[str, list[int]] = {}
    for topic, number in places:
        found.setdefault(topic, []).append(number)
    return found


def log_of(topic: Topic, partition: int) -> Log:
    """Return the log of a partition. Raises NoSuchPartition."""
    if not 0 <= partition < topic.partitions:
        raise NoSuchPartition(topic.name, partition)
    return topic.partition(partition)


Answer = Callable[[Call, str, Values], Awaitable[Values]]
"""Returns what the response has for a partition. str: its topic; Values: what the request has for it."""
Handler = Callable[[Call], Awaitable[Values | None]]
"""Returns the values of the response; None: there is none."""
