"""Topic configs, DeleteRecords and the edges of groups: the same requests to both brokers, and what each answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.kafka.suites import group_edges
from tests.kafka.suites.asking import APPEND, DELETE, SET, SUBTRACT, Asking, Shown, asking
from tests.kafka.suites.expected import EXPECTED
from tests.kafka.suites.sides import Settings, needed, started
from tests.kafka.suites.verdicts import Verdict, Verdicts

KNOWN = EXPECTED
TITLE = "Topic configs, DeleteRecords and groups, by the same requests"
LONGEST, INT_MAX = str(2**63 - 1), str(2**31 - 1)
OVER, OVER_INT = str(2**63), str(2**31)
POLICY = "cleanup.policy"
LONG = ("0", "1", "5000", "-1", "-2", LONGEST, OVER, "x", "", "1.5", " 7 ")
INT = ("0", "1", "5000", "-1", INT_MAX, OVER_INT, "x", "1.0")
TRUTH = ("true", "false", "TRUE", "yes", "")
LIST_OF_REPLICAS = ("*", "0:1", "0:1,1:1", "x", "", "1", "*,0:1")
VALUES: Mapping[str, tuple[str, ...]] = {  # config -> the values that are tried
    POLICY: (
        "delete",
        "compact",
        "compact,delete",
        "delete,compact",
        "delete, compact",
        "delete,delete",
        "COMPACT",
        "none",
        "",
        "delete,none",
    ),
    "compression.gzip.level": ("-1", "0", "1", "9", "10", "x"),
    "compression.lz4.level": ("0", "1", "9", "17", "18", "x"),
    "compression.type": ("producer", "gzip", "snappy", "lz4", "zstd", "uncompressed", "none", "LZ4", ""),
    "compression.zstd.level": ("-131073", "-131072", "3", "22", "23", "x"),
    "delete.retention.ms": (*LONG, "86400000"),
    "file.delete.delay.ms": (*LONG, "60000"),
    "flush.messages": LONG,
    "flush.ms": LONG,
    "follower.replication.throttled.replicas": LIST_OF_REPLICAS,
    "index.interval.bytes": (*INT, "4096"),
    "leader.replication.throttled.replicas": LIST_OF_REPLICAS,
    "local.retention.bytes": (*LONG, "-3"),
    "local.retention.ms": (*LONG, "-3"),
    "max.compaction.lag.ms": LONG,
    "max.message.bytes": (*INT, "1048588", "2000000"),
    "message.timestamp.after.max.ms": (*LONG, "3600000"),
    "message.timestamp.before.max.ms": LONG,
    "message.timestamp.type": ("CreateTime", "LogAppendTime", "createtime", ""),
    "min.cleanable.dirty.ratio": ("0", "0.5", "0.25", "1", "1.1", "-0.1", "NaN", "x", "", "1e-1", ".5"),
    "min.compaction.lag.ms": LONG,
    "min.insync.replicas": ("0", "1", "2", "-1", INT_MAX, "x"),
    "preallocate": TRUTH,
    "remote.log.copy.disable": TRUTH,
    "remote.log.delete.on.disable": TRUTH,
    "remote.storage.enable": TRUTH,
    "retention.bytes": (*LONG, "-3"),
    "retention.ms": (*LONG, "604800000"),
    "segment.bytes": ("1048576", "1048575", "1073741824", INT_MAX, OVER_INT, "0", "-1", "x"),
    "segment.index.bytes": (*INT, "3", "4", "10485760"),
    "segment.jitter.ms": LONG,
    "segment.ms": (*LONG, "604800000"),
    "unclean.leader.election.enable": TRUTH,
    "message.format.version": ("3.0",),
    "message.downconversion.enable": ("true",),
    "message.timestamp.difference.max.ms": ("1",),
    "any.name": ("1",),
}
EXPORTED = {  # what Kafka 4.3.1 describes of a topic without configs
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": LONGEST,
    "flush.ms": LONGEST,
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": LONGEST,
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": LONGEST,
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
TOGETHER: tuple[Mapping[str, str], ...] = (  # values of several configs
    {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
    {"retention.ms": "1000", "local.retention.ms": "2000"},
    {"retention.bytes": "1000", "local.retention.bytes": "2000"},
    {"retention.ms": "-1", "local.retention.ms": "2000"},
    {"retention.ms": "1000", "local.retention.ms": "-1"},
    {"remote.storage.enable": "true", POLICY: "compact"},
    {"segment.ms": "1000", "segment.jitter.ms": "2000"},
    {"retention.ms": "1000", "retention.bytes": "-1", POLICY: "compact"},
    {"max.message.bytes": "2000", "segment.bytes": "1048576"},
)
LISTS = (  # of cleanup.policy: the value before, an operation, its value
    ("delete", APPEND, "compact"),
    ("compact", APPEND, "delete"),
    ("compact,delete", SUBTRACT, "compact"),
    ("delete,compact", SUBTRACT, "delete"),
    ("delete", SUBTRACT, "delete"),
    ("delete", APPEND, "delete"),
    ("delete", SUBTRACT, "compact"),
    ("delete", APPEND, "none"),
)
Outcome = tuple[str, str]
"""A check, and what a broker answered."""


def verdicts(side: str, only: str = "") -> Verdicts:
    """Ask the broker of a side."""
    needed("java", "mvn")
    with started(side, Settings()) as address, asking(address) as broker:
        found = dict(_outcomes(broker))
    return {name: Verdict(outcome) for name, outcome in found.items() if only in name}


def _outcomes(broker: Asking) -> Iterator[Outcome]:
    yield from _defaults(broker)
    for name, values in VALUES.items():
        yield from _values(broker, name, values)
    yield from _together(broker)
    yield from _lists(broker)
    yield from _deleted_records(broker)
    yield from group_edges.outcomes(broker)


def _defaults(broker: Asking) -> Iterator[Outcome]:
    """What a topic without configs shows, and whether one can be created with all that it shows."""
    broker.create("plain", {})
    shown = broker.describe("plain")
    for name in VALUES:
        one = shown.get(name)
        yield f"default {name}", one.value if one else "-"
        yield f"default source {name}", one.source if one else "-"
        yield f"type {name}", f"{one.type}{' read only' if one.read_only else ''}" if one else "-"
    yield "create with all that Kafka shows", broker.create("exported", EXPORTED)
    yield "others", ", ".join(sorted(shown.keys() - VALUES.keys())) or "-"
    yield "create with all that is shown", broker.create("again", {name: one.value for name, one in shown.items()})


def _values(broker: Asking, name: str, values: tuple[str, ...]) -> Iterator[Outcome]:
    """Each value given to a new topic, and to one that exists; then none."""
    broker.create(altered := f"altered-{name}", {})
    for number, value in enumerate(values):
        topic, shown = f"created-{number}-{name}", f"{name}={value or '(empty)'}"
        code = broker.create(topic, {name: value})
        for about, each in _created(broker, topic, name, code):
            yield f"{about} {shown}", each
        code = broker.alter(altered, (name, SET, value))
        found = _shown(broker, altered, name)
        yield f"set {shown}", f"{found.value} ({found.source})" if code == "NONE" else code
        if code == "NONE":
            broker.alter(altered, (name, DELETE, None))
    yield f"delete {name}", f"{broker.alter(altered, (name, DELETE, None))} {_shown(broker, altered, name).value}"
    yield f"set {name} to null", broker.alter(altered, (name, SET, None))
    yield f"append to {name}", broker.alter(altered, (name, APPEND, values[0]))


def _created(broker: Asking, topic: str, name: str, code: str) -> Iterator[Outcome]:
    if code != "NONE":
        yield "create", code
        return
    found = _shown(broker, topic, name)
    yield "create", found.value
    yield "source", found.source
    broker.drop(topic)


def _shown(broker: Asking, topic: str, name: str) -> Shown:
    return broker.describe(topic).get(name, Shown("-", "-", "-", read_only=False))


def _together(broker: Asking) -> Iterator[Outcome]:
    for number, given in enumerate(TOGETHER):
        shown = ", ".join(f"{name}={value}" for name, value in given.items())
        yield f"create {shown}", broker.create(f"together-{number}", given)
        broker.create(topic := f"together-set-{number}", {})
        yield f"set {shown}", broker.alter(topic, *((name, SET, value) for name, value in given.items()))


def _lists(broker: Asking) -> Iterator[Outcome]:
    for number, (before, operation, value) in enumerate(LISTS):
        broker.create(topic := f"list-{number}", {POLICY: before})
        code = broker.alter(topic, (POLICY, operation, value))
        word = "append" if operation == APPEND else "subtract"
        yield f"{word} {value} to {before}", f"{code} {_shown(broker, topic, POLICY).value}"


def _deleted_records(broker: Asking) -> Iterator[Outcome]:
    for policy in ("delete", "compact", "compact,delete"):
        topic = f"records-{policy.replace(',', '-')}"
        broker.create(topic, {POLICY: policy})
        for offset in (0, -1, 5, -2):
            yield f"DeleteRecords before {offset}, {policy}", broker.delete_records(topic, offset)
