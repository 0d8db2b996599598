"""What the client makes of answers: values, or errors of ours, whatever a server (or who sits between) sends."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from seglog.arrow.convert import record_schema
from seglog.client import arrow, failures, flows, full_values, retrying
from seglog.client.requests import append_calls, group_calls, topic_calls
from seglog.client.requests.call import Answer
from seglog.config import Retention
from seglog.errors import SeglogError
from seglog.server.http.bodies import arrow_body, placed
from tests.fuzz.choices import Choices, mangled, mangled_text

if TYPE_CHECKING:
    from collections.abc import Iterator

APPENDED, DURABLE = (topic_calls.acknowledgement(ack) for ack in ("appended", "durable"))
NO_RETRIES = retrying.Retries(0)
STATE = {
    "partition": 0,
    "lowest_offset": 0,
    "next_offset": 5,
    "durable_offset": 5,
    "bytes": 300,
    "initial_offset": 0,
    "log": "ab",
    "epoch": 0,
    "version": 3,
    "segments": [],
}
LINE = {"partition": 0, "offset": 3, "timestamp": 5, "key": "k", "value": {"base64": "AA=="}, "headers": []}
TOPIC = {"name": "t", "id": "x", "partitions": 1, "records": 5, "bytes": 9, "config": {}, "retention": {}}
GROUP = {"name": "g", "generation": 2, "members": [], "committed": {"t": {"0": 3}}, "lag": {"t": {"0": 2}}}
PROBLEM = {"type": "about:blank", "status": 404, "detail": "gone", "error": "OffsetCompacted", "offset": 3, "row": None}
RECORDS = pa.RecordBatch.from_pylist(
    [{"offset": 0, "timestamp": 5, "key": b"k", "value": b"v", "headers": [{"key": "h", "value": b""}]}],
    record_schema("binary"),
)
BODIES: tuple[Any, ...] = (
    STATE,
    {**TOPIC, "topics": [TOPIC], "failed": {"x": "why"}, "partition_states": [STATE]},
    {**LINE, "value_bytes": 900},
    LINE,
    {"next_offset": 3, "offsets": {"0": 3, "t": {"0": 3}}, "partitions": {"0": {"first_offset": 3, "next_offset": 5}}},
    {"partition": 0, "offset": 3, "lag": {"t": {"0": 3}}, "groups": ["g"]},
    {"member": "m", "generation": 3, "assignment": [["t", 0]]},
    GROUP,
    PROBLEM,
)
STREAMS = (arrow_body([RECORDS]), arrow_body([placed(RECORDS, ("t", 0))], placed(RECORDS, ("t", 0)).schema))
HEADS = {
    "seglog-next-offset": "5",
    "seglog-epoch": "0",
    "seglog-log": "ab",
    "seglog-next-offsets": '{"t": {"0": 5}}',
    "seglog-traces": '{"t": {"0": ["ab", 0, null, 1]}}',
    "retry-after": "1",
}
STATUSES = (200, 200, 200, 200, 201, 204, 301, 400, 401, 403, 404, 409, 413, 429, 500, 503, 999)


def seeds() -> Iterator[bytes]:
    yield b""
    for number in range(20):
        yield bytes([number, 0, number % 11, 0, 0])
        yield bytes([number, number % 17, number % 11, 1, 1, 9, number, 0, 0])


def target(data: bytes) -> None:
    choices = Choices(data)
    flow = choices.of(_flows())
    with suppress(SeglogError, StopIteration):
        flow.send(None)
        for _ in range(4):
            flow.send(_answer(choices))


def _flows() -> list[Any]:
    """Return one flow of each kind of request; an answer to it is read as that request's."""
    asked: list[Any] = [
        topic_calls.health(),
        topic_calls.topics(),
        topic_calls.failed_topics(),
        topic_calls.create_topic("t", 1, None),
        topic_calls.topic("t"),
        topic_calls.bounds("t"),
        topic_calls.states("t"),
        topic_calls.partition("t", 0),
        topic_calls.alter_topic("t", {"retention": Retention()}),
        topic_calls.alter_topic("t", {"compression": "lz4"}),
        topic_calls.alter_topic("t", {"segment_age": 60}),
        topic_calls.delete_topic("t"),
        topic_calls.care("t", "compact", None),
        topic_calls.truncate("t", 0, 3),
        topic_calls.offset_at("t", 5),
        append_calls.append(
            "t",
            b"",
            key=None,
            timestamp=None,
            force_timestamp=False,
            headers=(),
            partition=0,
            expected_offset=None,
            once="x",
            ack=DURABLE,
        ),
        append_calls.append_batch("t", b"", partition=None, once="x", ack=APPENDED),
        group_calls.groups(),
        group_calls.group("g"),
        group_calls.join("g", ["t"], member="m", session_timeout=5),
        group_calls.heartbeat("g", "m", 1),
        group_calls.committed("g"),
        group_calls.lag({"t": {0: 3}}),
    ]
    return [
        full_values.read("t", 0, 3, NO_RETRIES),
        full_values.with_key("t", b"k", 5, NO_RETRIES),
        _pages(),
        flows.fetch({"t": {0: 3}}, max_records=5, max_bytes=5, wait=0, retries=NO_RETRIES),
        flows.follow("t", None, "earliest", NO_RETRIES),
        *(retrying.retrying(call, NO_RETRIES) for call in asked),
    ]


def _pages() -> Any:
    page = yield from retrying.retrying(topic_calls.read_range("t", 0, 0, 5, max_records=5, max_bytes=5), NO_RETRIES)
    for batch in page.batches:
        arrow.records(batch)


def _answer(choices: Choices) -> Answer:
    status = choices.of(STATUSES)
    heads = dict(HEADS)
    number = choices.below(len(BODIES) + len(STREAMS))
    if number < len(BODIES):
        body = json.dumps(BODIES[number]).encode()
        for _ in range(choices.below(3)):
            body = mangled_text(body, choices)
    else:
        body = bytes(STREAMS[number - len(BODIES)])
        for _ in range(choices.below(3)):
            body = mangled(body, choices)
    if choices.below(3) == 1:
        name = choices.of(sorted(heads))
        heads[name] = mangled_text(heads[name].encode(), choices).decode("latin-1")
    elif choices.below(8) == 1:
        heads = {}
    answer = Answer(status, heads, body)
    failures.passes(answer)
    failures.retry_after(answer)
    assert isinstance(failures.error_of(answer), SeglogError)
    return answer
