"""Requests about topics and for reading, one function each: arguments -> a Call. Pure.

Arguments are checked as a local topic does, and names before they become part of a path. Appends are in append_calls,
groups in group_calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import quote

from seglog.client.models import Ack, Bounds, Fetched, Page, PartitionInfo, PartitionState, SegmentState, TopicInfo
from seglog.client.requests.call import Answer, Call, Fields
from seglog.config import Expose, LogConfig, changes_to_json
from seglog.errors import InvalidArgument, InvalidType
from seglog.format.lines import decode_bytes
from seglog.log.copies import checked_copies
from seglog.policies import Policies
from seglog.record import (
    Cut,
    Record,
    Timestamp,
    checked_bytes,
    checked_kind,
    checked_offset,
    checked_timestamp,
    looks_like,
)
from seglog.topic import read_trace
from seglog.topic.groups.arguments import checked_offsets, checked_wait
from seglog.topic.layout.names import checked_name
from seglog.topic.positions import from_values, nested

T = TypeVar("T")

JSON = "application/json"
OCTETS = "application/octet-stream"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
_MAX_ONCE = 200
SNAPSHOT, NEW = "seglog-snapshot", "new"  # a header, and its value for the first page of a range
MIRROR_SECONDS = 30.0  # that an append waits for copies


# --- parts ------------------------------------------------------------------------------------------------------------


def topic_path(topic: str, rest: str = "") -> str:
    """Return the path of a topic. Raises InvalidArgument for an invalid name."""
    return f"/topics/{checked_name(topic, 'topic')}{rest}"


def target(path: str, query: Mapping[str, object]) -> str:
    """Return path and query: None is omitted, a list repeats the parameter, bytes are percent-encoded."""
    given = [(name, one) for name, value in query.items() for one in (value if isinstance(value, list) else [value])]
    pairs = [f"{name}={_quoted(one)}" for name, one in given if one is not None]
    return f"{path}?{'&'.join(pairs)}" if pairs else path


def _quoted(value: object) -> str:
    return quote(value if isinstance(value, bytes) else str(value), safe="")


def fields(
    *, accept: str | None = None, content: bytes | None = None, once: str | None = None, snapshot: str | None = None
) -> Fields:
    """Return header fields. Raises InvalidArgument for an idempotency key that no header can hold."""
    found: list[tuple[bytes, bytes]] = []
    if snapshot is not None:
        found.append((SNAPSHOT.encode(), snapshot.encode()))
    if accept is not None:
        found.append((b"accept", accept.encode()))
    if content is not None:
        found.append((b"content-type", content))
    if once is not None:
        if not isinstance(once, str):
            raise InvalidType(f"once must be str, not {type(once).__name__}")
        if not (once.isascii() and once.isprintable() and once == once.strip() and 1 <= len(once) <= _MAX_ONCE):
            raise InvalidArgument(f"once must be 1 to {_MAX_ONCE} printable ASCII characters without blanks around")
        found.append((b"idempotency-key", once.encode()))
    return tuple(found)


def checked_ack(ack: object) -> Ack:
    """Return `ack`. Raises InvalidArgument for any other value."""
    if ack == "appended" or ack == "durable" or ack == "archived" or ack == "mirrored":  # noqa: PLR1714 - each one narrows the type
        return ack
    raise InvalidArgument(f'ack is {ack!r}; it must be "appended", "durable", "archived" or "mirrored"')


class Acknowledgement(NamedTuple):
    """When an append is to be answered. copies, wait: with "mirrored", how many copies, and seconds to wait."""

    ack: Ack
    copies: int
    wait: float

    def query(self) -> dict[str, object]:
        """Return the parameters; those with defaults, which servers of earlier versions may not know, are omitted."""
        if self.ack == "mirrored":
            return {"ack": self.ack, "copies": self.copies, "wait": self.wait}
        return {"ack": None if self.ack == "appended" else self.ack}

    @property
    def patience(self) -> float:
        """Seconds that the server may take longer than for other requests."""
        return self.wait if self.ack == "mirrored" else 0.0


def acknowledgement(ack: object, copies: object = 1, wait: float = MIRROR_SECONDS) -> Acknowledgement:
    """Return the arguments of an append. Raises InvalidArgument or InvalidType."""
    return Acknowledgement(checked_ack(ack), checked_copies(copies), checked_wait(wait))


def checked_expose(expose: object) -> Expose:
    """Return which records are to be read; InvalidArgument for anything but one of both words."""
    if not isinstance(expose, str) or expose not in ("appended", "durable"):
        raise InvalidArgument(f'expose is {expose!r}; it must be "appended" or "durable"')
    return "durable" if expose == "durable" else "appended"


def exposed(expose: Expose) -> dict[str, str]:
    """Return the parameter `expose` where it is not the default, which servers of earlier versions do not know."""
    return {} if expose == "appended" else {"expose": expose}


def json_body(value: object) -> bytes:
    """Return a value as a JSON body."""
    return json.dumps(value).encode()


def posted(path: str, value: object, read: Any, *, repeatable: bool = True, wait: float = 0.0) -> Call[Any]:
    """Return a POST with a JSON body."""
    return Call("POST", path, read, json_body(value), fields(content=JSON.encode()), repeatable, wait)


def nothing(_: Answer) -> None:
    """Read an answer without content."""


def body_of(answer: Answer) -> Any:
    """Return the JSON of an answer."""
    return json.loads(answer.body)


# --- topics -----------------------------------------------------------------------------------------------------------


def health() -> Call[dict[str, Any]]:
    """Get the server's health."""
    return Call("GET", "/health", body_of)


def copies() -> Call[dict[str, Any]]:
    """Get the copies of the server's topics, and what it copies itself."""
    return Call("GET", "/copies", body_of)


def topics() -> Call[list[TopicInfo]]:
    """List all topics that the caller has a right on."""
    return Call("GET", "/topics", lambda answer: [TopicInfo.from_json(one) for one in body_of(answer)["topics"]])


def failed_topics() -> Call[dict[str, str]]:
    """List the topics that the server cannot open, with reasons."""
    return Call("GET", "/topics", lambda answer: dict(body_of(answer).get("failed", {})))


def create_topic(
    name: str, partitions: int, config: LogConfig | None, policies: Policies | None = None
) -> Call[TopicInfo]:
    """Create a topic. Not repeatable once the server may have received it: a repetition would find the topic."""
    body: dict[str, Any] = {"name": checked_name(name, "topic"), "partitions": checked_offset(partitions, "partitions")}
    if config is not None:
        body["config"] = checked_kind(config, LogConfig, "config").to_json()
    if policies is not None:
        body["policies"] = checked_kind(policies, Policies, "policies").to_json()
    return posted("/topics", body, lambda answer: TopicInfo.from_json(body_of(answer)), repeatable=False)


def topic(name: str) -> Call[TopicInfo]:
    """Describe a topic."""
    return Call("GET", topic_path(name), lambda answer: TopicInfo.from_json(body_of(answer)))


def bounds(name: str) -> Call[dict[int, Bounds]]:
    """Get the offsets of every partition."""

    def read(answer: Answer) -> dict[int, Bounds]:
        states = body_of(answer)["partition_states"]
        return {
            one["partition"]: Bounds(one["lowest_offset"], one["next_offset"], one["durable_offset"]) for one in states
        }

    return Call("GET", topic_path(name), read)


def states(name: str) -> Call[dict[int, PartitionState]]:
    """Get the state of every partition."""

    def read(answer: Answer) -> dict[int, PartitionState]:
        return {one["partition"]: PartitionState.from_json(one) for one in body_of(answer)["partition_states"]}

    return Call("GET", topic_path(name), read)


def partition(name: str, number: int) -> Call[PartitionInfo]:
    """Get one partition with its segments."""

    def read(answer: Answer) -> PartitionInfo:
        values = body_of(answer)
        segments = tuple(SegmentState.from_json(one) for one in values["segments"])
        return PartitionInfo(PartitionState.from_json(values), segments)

    return Call("GET", topic_path(name, f"/partitions/{checked_offset(number, 'partition')}"), read)


def alter_topic(name: str, changes: Mapping[str, Any]) -> Call[TopicInfo]:
    """Change settings of a topic."""
    settings = dict(changes)
    policies = settings.pop("policies", None)
    LogConfig().altered(settings)  # checks them
    values = changes_to_json(settings)
    if "policies" in changes:
        values["policies"] = checked_kind(policies, Policies, "policies").given()
    body, content = json_body(values), fields(content=JSON.encode())
    return Call("PATCH", topic_path(name), lambda answer: TopicInfo.from_json(body_of(answer)), body, content)


def add_partitions(name: str, partitions: int) -> Call[TopicInfo]:
    """Raise a topic's number of partitions. Not repeatable: a repetition would find that it has as many."""
    body = {"partitions": checked_offset(partitions, "partitions")}

    def read(answer: Answer) -> TopicInfo:
        return TopicInfo.from_json(body_of(answer))

    return posted(topic_path(name, "/partitions"), body, read, repeatable=False)


def delete_topic(name: str) -> Call[None]:
    """Delete a topic."""
    return Call("DELETE", topic_path(name), nothing, repeatable=False)


def care(name: str, what: str, partition: int | None) -> Call[dict[int, Any]]:
    """Compact or expire now, one partition or all: partition -> what was done."""
    wanted = None if partition is None else checked_offset(partition, "partition")

    def read(answer: Answer) -> dict[int, Any]:
        return {int(number): report for number, report in body_of(answer)["partitions"].items()}

    return Call("POST", target(topic_path(name, f"/{what}"), {"partition": wanted}), read)


def truncate(name: str, partition: int, offset: int) -> Call[int]:
    """Remove the records of a partition from an offset on; return its next offset."""
    path = topic_path(name, f"/partitions/{checked_offset(partition, 'partition')}/truncate")
    body = {"offset": checked_offset(offset)}
    return cast("Call[int]", posted(path, body, lambda answer: int(body_of(answer)["next_offset"])))


def delete_before(name: str, partition: int, offset: int) -> Call[int]:
    """Delete the records of a partition before an offset; return where it begins then."""
    path = topic_path(name, f"/partitions/{checked_offset(partition, 'partition')}/delete-before")
    body = {"offset": checked_offset(offset)}
    return cast("Call[int]", posted(path, body, lambda answer: int(body_of(answer)["lowest_offset"])))


# --- reading ----------------------------------------------------------------------------------------------------------


def read(name: str, partition: int, offset: int, expose: Expose = "appended") -> Call[Record]:
    """Read one record; its value is a `Cut` if it is too long for JSON."""
    path = topic_path(name, f"/partitions/{checked_offset(partition, 'partition')}/records/{checked_offset(offset)}")
    return Call(
        "GET", target(path, exposed(expose)), lambda answer: record_of(body_of(answer)), headers=fields(accept=JSON)
    )


def value(name: str, partition: int, offset: int) -> Call[bytes]:
    """Read the value of a record that has one."""
    path = topic_path(name, f"/partitions/{partition}/records/{offset}")
    return Call("GET", path, lambda answer: answer.body, headers=fields(accept=OCTETS))


def read_line(name: str, partition: int, start: int, stop: int, snapshot: str) -> Call[tuple[Record, Page]]:
    """Read the first record of a range, its value as `read`, and the page that it would be, without a batch."""
    path = topic_path(name, f"/partitions/{partition}/records")

    def read(answer: Answer) -> tuple[Record, Page]:
        head = answer.headers
        following, epoch = int(head["seglog-next-offset"]), int(head["seglog-epoch"])
        return record_of(json.loads(answer.body)), Page([], following, head["seglog-log"], epoch, 0, head.get(SNAPSHOT))

    query = {"start": start, "stop": stop, "max_records": 1}
    return Call("GET", target(path, query), read, headers=fields(accept=NDJSON, snapshot=snapshot))


def read_range(
    name: str,
    partition: int,
    start: int,
    stop: int,
    *,
    max_records: int,
    max_bytes: int,
    expose: Expose = "appended",
    snapshot: str = NEW,
) -> Call[Page]:
    """Read records of a range. snapshot: of the page before."""
    query: dict[str, object] = {
        "start": checked_offset(start, "start"),
        "stop": checked_offset(stop, "stop"),
        "max_records": max_records,
        "max_bytes": max_bytes,
        **exposed(expose),
    }
    path = target(topic_path(name, f"/partitions/{checked_offset(partition, 'partition')}/records"), query)

    def read(answer: Answer) -> Page:
        from seglog.client import arrow  # noqa: PLC0415 - imports pyarrow only when needed

        head, batches = answer.headers, arrow.batches_of(answer.body)
        following, epoch = int(head["seglog-next-offset"]), int(head["seglog-epoch"])
        return Page(batches, following, head["seglog-log"], epoch, len(answer.body), head.get(SNAPSHOT))

    return Call("GET", path, read, headers=fields(accept=ARROW, snapshot=snapshot))


def fetch(
    positions: Mapping[str, Mapping[int, int]],
    *,
    max_records: int,
    max_bytes: int,
    wait: float,
    accept: str = ARROW,
    expose: Expose = "appended",
) -> Call[Fetched]:
    """Read several partitions: one Arrow stream, and where to go on. wait: seconds to wait for the first record.

    accept: NDJSON for lines, in which long values are cut.
    """
    body = {
        "positions": nested(checked_offsets(positions)),
        "max_records": checked_offset(max_records, "max_records"),
        "max_bytes": checked_offset(max_bytes, "max_bytes"),
        "wait": checked_wait(wait),
        **exposed(expose),
    }

    def read(answer: Answer) -> Fetched:
        head = answer.headers
        passages = read_trace.from_json(head.get("seglog-traces", "{}"))  # absent: an older server
        reached = from_values(json.loads(head["seglog-next-offsets"]))
        for topic, of in positions.items():
            for number in of:
                _ = reached[topic][number]  # KeyError: the next offset is missing
        return Fetched(answer.body, reached, passages)

    head = fields(accept=accept, content=JSON.encode())
    return Call("POST", "/fetch", read, json_body(body), head, wait=wait)


def time_query(moment: int | None) -> dict[str, object]:
    """Return the parameters of a time that was checked here; servers of earlier versions know only the first."""
    forced = moment is not None and looks_like(moment) is not None
    return {"timestamp": moment, "force_timestamp": "true" if forced else None}


def offset_at(
    name: str, timestamp: Timestamp, expose: Expose = "appended", *, force_timestamp: bool = False
) -> Call[dict[int, int | None]]:
    """Get partition -> the first offset at or after a time."""

    def read(answer: Answer) -> dict[int, int | None]:
        return {int(number): offset for number, offset in body_of(answer)["offsets"].items()}

    query = {**time_query(checked_timestamp(timestamp, force_timestamp=force_timestamp)), **exposed(expose)}
    return Call("GET", target(topic_path(name, "/offsets"), query), read)


def with_key(name: str, key: bytes, max_records: int, expose: Expose = "appended") -> Call[list[tuple[int, Record]]]:
    """Get the records of a key that exist, newest last, each with its partition; values as in `read`."""

    def read(answer: Answer) -> list[tuple[int, Record]]:
        lines = [json.loads(line) for line in answer.body.split(b"\n") if line]
        return [(line["partition"], record_of(line)) for line in lines]

    query: dict[str, object] = {
        "key": checked_bytes(key, "key"),
        "max_records": checked_offset(max_records, "max_records"),
        **exposed(expose),
    }
    return Call("GET", target(topic_path(name, "/keys"), query), read, headers=fields(accept=NDJSON))


def record_of(line: dict[str, Any]) -> Record:
    """Return the record of an NDJSON line."""
    headers = tuple((one["key"], decode_bytes(one["value"], "a header")) for one in line["headers"])
    key, value = decode_bytes(line["key"], "key"), decode_bytes(line["value"], "value")
    if value is not None and "value_bytes" in line:
        value = Cut(value, line["value_bytes"])
    return Record(line["offset"], line["timestamp"], key, value, headers)
