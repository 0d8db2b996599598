"""Shared by several routes: parameters of the same name and meaning, and the lookup of a request's log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from seglog.log.copies import MOST_COPIES
from seglog.log.log import Log
from seglog.server.api.models import NAME
from seglog.server.api.operations import Answer, Call
from seglog.server.api.parameters import choice, integer, seconds, text
from seglog.server.api.schemas import Schema, object_of
from seglog.server.problems import HttpProblem
from seglog.topic.topic import Topic

TOPIC = text("topic", "A topic's name.", pattern=NAME)
PARTITION = integer("partition", "A partition's number.", least=0, most=9999)
ACK = choice(
    "ack",
    'When to answer: "appended": the record survives a kill of the server; "durable": it survives power loss; '
    '"archived": the archive has it, too (`seglog serve --archive`); "mirrored": as many copies as `copies` have it on '
    "their disks, too (`seglog mirror`).",
    "appended",
    "durable",
    "archived",
    "mirrored",
)
COPIES = integer("copies", 'With ack "mirrored": how many copies must have it.', least=1, most=MOST_COPIES, default=1)
ACK_WAIT = replace(
    seconds("wait", 'With ack "mirrored": seconds to wait; then the answer is 504, and the record stays.', most=60),
    default=30.0,
)
ACKS = (ACK, COPIES, ACK_WAIT)
ONCE = text(
    "Idempotency-Key",
    "An append that is repeated with the same key is stored once and gets the same answer.",
    pattern="[!-~][ -~]*",
    where="header",
)
MAX_RECORDS = integer("max_records", "The most records to return.", least=1, most=1_000_000, default=1000)
MAX_BYTES = integer(
    "max_bytes", "About the most bytes of records to return; at least one record.", least=1, most=2**40, default=2**20
)
FORCE_TIMESTAMP = choice(
    "force_timestamp",
    "Whether a timestamp that looks like seconds (1e9 to 1e11) or milliseconds (1e12 to 1e14) is taken as it is; "
    "otherwise it is refused.",
    "false",
    "true",
)
EMPTY = Answer("Done.")


def json_of(about: str, properties: Mapping[str, Schema]) -> Answer:
    """Describe an answer: a JSON object with exactly these properties."""
    return Answer(about, {"application/json": object_of(properties)})


async def topic_of(call: Call, name: str | None = None) -> Topic:
    """Return a topic, by default the one in the request's path; opens it on a thread. Raises TopicNotFound."""
    name = call.values["topic"] if name is None else name
    call.topics.add(name)
    broker = call.services.broker
    found = broker.if_open(name)
    return await call.services.reads.run(partial(broker.topic, name)) if found is None else found


async def log_of(call: Call) -> Log:
    """Return the log of the partition in the request's path. Raises 404 if there is none."""
    return partition_log(await topic_of(call), call.values["partition"])


def partition_log(topic: Topic, number: int) -> Log:
    """Return a partition's log. Raises 404 if the topic has no such partition."""
    if not 0 <= number < topic.partitions:
        raise HttpProblem(404, f"topic {topic.name!r} has partitions 0 to {topic.partitions - 1}, not {number}")
    return topic.partition(number)


def wanted_media(call: Call, *offered: str) -> str:
    """Return the content type of the answer: the first one offered that the Accept header names. Raises 406."""
    accept = call.headers.get("accept", "*/*").lower()
    named = [part.partition(";")[0].strip() for part in accept.split(",")]
    for kind in named:
        if kind in ("*/*", "application/*", ""):
            return offered[0]
        if kind in offered:
            return kind
    raise HttpProblem(406, f"this answer is available as {' or '.join(offered)}, not as {accept[:200]}")
