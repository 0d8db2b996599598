"""Requests about topics and groups in Kafka's protocol, the same to either broker, with answers as short texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from seglog.kafka import codes
from seglog.kafka.messages.admin import (
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
)
from tests.kafka.conftest import Raw, connected
from tests.waiting import until

TOPIC = 2
SET, DELETE, APPEND, SUBTRACT = range(4)
SOURCES = {1: "topic", 3: "broker", 4: "broker", 5: "default"}
FENCE, FENCED = "fence", "retention.ms"
TYPES = {1: "BOOLEAN", 2: "STRING", 3: "INT", 5: "LONG", 6: "DOUBLE", 7: "LIST"}
MS = 30_000
_OTHERS = {16: "NOT_COORDINATOR", -1: "UNKNOWN_SERVER_ERROR"}
_NAMES = _OTHERS | {value: name for name, value in vars(codes).items() if name.isupper() and isinstance(value, int)}
AGAIN = {
    "NOT_LEADER",
    "LEADER_NOT_AVAILABLE",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "NOT_COORDINATOR",
}


class Shown(NamedTuple):
    """A config as DescribeConfigs gives it."""

    value: str
    source: str
    type: str
    read_only: bool


def named(code: int) -> str:
    """Return the name of an error code."""
    return _NAMES.get(code, f"error {code}")


class Asking:
    """A connection to a broker. Codes are returned by their names.

    Kafka answers a change before it shows it, and shows changes in their order. So `describe` waits until it shows a
    last change of a topic of its own.
    """

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self._changes = 0
        self.create(FENCE, {})

    def create(self, topic: str, configs: Mapping[str, str | None], partitions: int = 1) -> str:
        """Create a topic."""
        given = [{"name": name, "value": value} for name, value in configs.items()]
        wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1, "assignments": []}
        values = {"topics": [{**wanted, "configs": given}], "timeout_ms": MS, "validate_only": False}
        return named(self.raw.ask(CREATE_TOPICS, 4, values)["topics"][0]["error_code"])

    def drop(self, topic: str) -> str:
        """Delete a topic."""
        found = self.raw.ask(DELETE_TOPICS, 3, {"topic_names": [topic], "timeout_ms": MS})
        return named(found["responses"][0]["error_code"])

    def alter(self, topic: str, *changes: tuple[str, int, str | None]) -> str:
        """Change configs: (name, operation, value)."""
        given = [{"name": name, "config_operation": what, "value": value} for name, what, value in changes]
        resource = {"resource_type": TOPIC, "resource_name": topic, "configs": given}
        found = self.raw.ask(INCREMENTAL_ALTER_CONFIGS, 0, {"resources": [resource], "validate_only": False})
        return named(found["responses"][0]["error_code"])

    def describe(self, topic: str) -> dict[str, Shown]:
        """Return the configs of a topic, after all changes."""
        self._changes += 1
        self.alter(FENCE, (FENCED, SET, str(self._changes)))
        until(lambda: (one := self._described(FENCE).get(FENCED)) and one.value == str(self._changes))
        return self._described(topic)

    def _described(self, topic: str) -> dict[str, Shown]:
        resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}
        values = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
        found = self.raw.ask(DESCRIBE_CONFIGS, 3, values)["results"][0]["configs"]
        return {
            one["name"]: Shown(one["value"], SOURCES[one["config_source"]], TYPES[one["config_type"]], one["read_only"])
            for one in found
        }

    def delete_records(self, topic: str, offset: int) -> str:
        """Delete the records of partition 0 before an offset, once it has a leader."""
        partitions = [{"partition_index": 0, "offset": offset}]
        values = {"topics": [{"name": topic, "partitions": partitions}], "timeout_ms": MS}
        found: list[str] = []

        def answered() -> bool:
            [one] = self.raw.ask(DELETE_RECORDS, 1, values)["topics"][0]["partitions"]
            found[:] = [f"{named(one['error_code'])} {one['low_watermark']}"]
            return not found[0].startswith((*AGAIN, "UNKNOWN_TOPIC"))

        until(answered)
        return found[0]

    def ask(self, *given: Any) -> dict[str, Any]:
        """Send any request: its Api, version and values."""
        return self.raw.ask(*given)


@contextmanager
def asking(address: str) -> Iterator[Asking]:
    """Give a connection to a broker."""
    with connected(address) as raw:
        yield Asking(raw)
