"""The clients of Kafka's protocol: connections, groups with members, and producers. For operators only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from starlette.responses import Response

from seglog.server.api.operations import Answer, Call, Operation, json_answer
from seglog.server.api.parameters import integer, text
from seglog.server.api.schemas import (
    ASSIGNMENT,
    BOOLEAN,
    COUNT,
    NUMBER,
    STRING,
    Schema,
    fields_of,
    list_of,
    object_of,
    or_null,
)
from seglog.server.overview import (
    AssignedPartition,
    ClientGroup,
    ClientMember,
    ConnectionState,
    Overview,
    Page,
    TransactionalId,
)
from seglog.server.routes.common import json_of

NONE: Page[Any] = Page(0, [], None)
AFTER = text(
    "after", "The page after this one: `after` of its answer.", pattern="([0-9a-f]{2})+", longest=None, where="query"
)
LIMIT = integer("limit", "The most entries to return.", least=1, most=200, default=50)
PAGE = (AFTER, LIMIT)


async def _connections(call: Call) -> Response:
    kafka = call.services.kafka
    return _answer(kafka, NONE if kafka is None else kafka.connections(*_asked(call)))


async def _groups(call: Call) -> Response:
    kafka = call.services.kafka
    return _answer(kafka, NONE if kafka is None else await kafka.groups(*_asked(call)))


async def _producers(call: Call) -> Response:
    kafka = call.services.kafka
    page = NONE if kafka is None else kafka.transactional_ids(*_asked(call))
    producers, partitions = (0, 0) if kafka is None else kafka.producers()
    return _answer(kafka, page, {"idempotent": {"producers": producers, "partitions": partitions}})


def _asked(call: Call) -> tuple[str, int]:
    return bytes.fromhex(call.values["after"] or "").decode(errors="replace"), call.values["limit"]


def _answer(kafka: Overview | None, page: Page[Any], more: Mapping[str, Any] | None = None) -> Response:
    after = None if page.after is None else page.after.encode().hex()
    listed = {"total": page.total, "entries": [asdict(one) for one in page.entries], "after": after}
    return json_answer({"address": None if kafka is None else kafka.address, **listed, **(more or {})})


CONNECTION = object_of(
    fields_of(ConnectionState, client=STRING, software=STRING, version=STRING, address=STRING, token=or_null(STRING))
)
ASSIGNED = object_of(fields_of(AssignedPartition, topic=STRING, lag=or_null(COUNT)))
MEMBER = object_of(
    fields_of(
        ClientMember,
        id=STRING,
        instance=or_null(STRING),
        client=STRING,
        address=STRING,
        session=NUMBER,
        partitions=or_null(list_of(ASSIGNED)),
        complete=BOOLEAN,
    )
)
GROUP = object_of(fields_of(ClientGroup, name=STRING, state=STRING, protocol=STRING, members=list_of(MEMBER)))
TRANSACTIONAL_ID = object_of(
    fields_of(
        TransactionalId,
        id=STRING,
        token=STRING,
        state=STRING,
        timeout=NUMBER,
        partitions=ASSIGNMENT,
        groups=list_of(STRING),
        complete=BOOLEAN,
    )
)
IDEMPOTENT = {"idempotent": object_of({"producers": COUNT, "partitions": COUNT})}


def _page_of(schema: Schema, more: Mapping[str, Schema] | None = None) -> Mapping[int, Answer]:
    listed = {"address": or_null(STRING), "total": COUNT, "entries": list_of(schema), "after": or_null(STRING)}
    about = "A page of them. address: where these clients connect, null without --kafka; total: of all pages."
    return {200: json_of(about, {**listed, **(more or {})})}


OPERATIONS = (
    Operation(
        "GET",
        "/kafka/connections",
        "kafka_connections",
        "List the connections of Kafka's clients, the oldest first.",
        _connections,
        "admin",
        _page_of(CONNECTION),
        PAGE,
    ),
    Operation(
        "GET",
        "/kafka/groups",
        "kafka_groups",
        "List the consumer groups with members that are Kafka's clients: what each member reads, and the lag.",
        _groups,
        "admin",
        _page_of(GROUP),
        PAGE,
    ),
    Operation(
        "GET",
        "/kafka/producers",
        "kafka_producers",
        "List the transactional ids of Kafka's clients, open transactions first; count idempotent producers.",
        _producers,
        "admin",
        _page_of(TRANSACTIONAL_ID, IDEMPOTENT),
        PAGE,
    ),
)
