"""The configs of broker and groups by Kafka's names: what the server does, as text. They are read, and never changed.

Most are options of `seglog serve`; the others are what this server always does, for tools that look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from seglog.kafka.configs import BOOLEAN, DEFAULTS, INT, LIST, LONG, SETTINGS
from seglog.kafka.groups.consumer_group import SESSION_SECONDS, STEADY_SECONDS
from seglog.kafka.groups.room import MOST_MEMBERS
from seglog.kafka.settings import IDLE_CONNECTION_SECONDS, SESSION_MS
from seglog.kafka.transactions.ids import EXPIRY_SECONDS
from seglog.kafka.transactions.transactions import MOST_TIMEOUT_MS
from seglog.topic.cleaning.cleaner import INTERVAL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seglog.kafka.settings import KafkaSettings
    from seglog.server.settings import Settings

OF_TOPICS = {  # config of the broker -> config of a new topic without one of its own
    "compression.type": "compression.type",
    "log.cleaner.delete.retention.ms": "delete.retention.ms",
    "log.cleaner.max.compaction.lag.ms": "max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms",
    "log.cleanup.policy": "cleanup.policy",
    "log.flush.interval.messages": "flush.messages",
    "log.flush.interval.ms": "flush.ms",
    "log.message.timestamp.after.max.ms": "message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
    "log.message.timestamp.type": "message.timestamp.type",
    "log.retention.bytes": "retention.bytes",
    "log.retention.ms": "retention.ms",
    "log.roll.ms": "segment.ms",
    "log.segment.bytes": "segment.bytes",
    "min.insync.replicas": "min.insync.replicas",
}
OF_GROUPS = {  # config of a group -> config of the broker that every group has
    "consumer.heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms": "group.consumer.session.timeout.ms",
}


class BrokerConfig(NamedTuple):
    """A config. type: as Kafka numbers them; about: what tools show to operators."""

    value: str
    type: int
    about: str


def broker_configs(number: int, address: str, settings: KafkaSettings, server: Settings) -> Mapping[str, BrokerConfig]:
    """Return every config, by name. number: of the broker; address: PROTOCOL://HOST:PORT, which clients are given."""
    of_topics = {
        name: BrokerConfig(DEFAULTS[topic], SETTINGS[topic].type, f"Of new topics. {SETTINGS[topic].about}")
        for name, topic in OF_TOPICS.items()
    }
    found = {**of_topics, **_constants(), **_of_server(number, address, settings, server)}
    return dict(sorted(found.items()))


def group_configs() -> Mapping[str, BrokerConfig]:
    """Return every config of a group, by name: they are the same for all groups."""
    constants = _constants()
    return {name: constants[of_broker] for name, of_broker in OF_GROUPS.items()}


def _of_server(number: int, address: str, settings: KafkaSettings, server: Settings) -> dict[str, BrokerConfig]:
    creates, partitions = settings.topic_partitions > 0, max(settings.topic_partitions, 1)
    limits = server.limits
    return {
        "advertised.listeners": BrokerConfig(address, LIST, "The address that clients are given."),
        "auto.create.topics.enable": BrokerConfig(
            _truth(creates), BOOLEAN, "Whether a topic is created because a client uses it."
        ),
        "broker.id": BrokerConfig(str(number), INT, "The number of the one broker."),
        "max.connections": BrokerConfig(str(limits.connections), INT, "The most connections at a time."),
        "message.max.bytes": BrokerConfig(str(limits.batch_bytes), INT, "The most bytes of a batch of records."),
        "node.id": BrokerConfig(str(number), INT, "The number of the one broker."),
        "num.partitions": BrokerConfig(
            str(partitions), INT, "Partitions of a topic that is created because a client uses it."
        ),
    }


def _constants() -> dict[str, BrokerConfig]:
    copies = "This server has one copy; followers have others."
    return {
        "connections.max.idle.ms": _time(IDLE_CONNECTION_SECONDS, "After which time a silent connection is closed."),
        "default.replication.factor": BrokerConfig("1", INT, copies),
        "delete.topic.enable": BrokerConfig("true", BOOLEAN, "Topics can be deleted."),
        "group.consumer.heartbeat.interval.ms": _time(STEADY_SECONDS, "Between heartbeats of the consumer protocol."),
        "group.consumer.session.timeout.ms": _time(SESSION_SECONDS, "After which a silent member is removed."),
        "group.max.session.timeout.ms": BrokerConfig(str(SESSION_MS[-1]), INT, "The longest session of a member."),
        "group.max.size": BrokerConfig(str(MOST_MEMBERS), INT, "The most members of a group."),
        "group.min.session.timeout.ms": BrokerConfig(str(SESSION_MS[0]), INT, "The shortest session of a member."),
        "log.cleaner.backoff.ms": _time(INTERVAL_SECONDS, "The longest time between two looks at a log."),
        "log.cleaner.enable": BrokerConfig("true", BOOLEAN, "Compaction runs in the server."),
        "offsets.topic.replication.factor": BrokerConfig("1", INT, copies),
        "transaction.max.timeout.ms": BrokerConfig(str(MOST_TIMEOUT_MS), INT, "The longest transaction."),
        "transaction.state.log.min.isr": BrokerConfig("1", INT, copies),
        "transaction.state.log.replication.factor": BrokerConfig("1", INT, copies),
        "transactional.id.expiration.ms": _time(EXPIRY_SECONDS, "After which an unused id is forgotten."),
        "unclean.leader.election.enable": BrokerConfig("false", BOOLEAN, "The one broker leads all partitions."),
    }


def _truth(value: bool) -> str:
    return str(value).lower()


def _time(seconds: float, about: str) -> BrokerConfig:
    return BrokerConfig(str(round(seconds * 1000)), LONG, about)
