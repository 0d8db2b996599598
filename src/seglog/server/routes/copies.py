"""What copies there are of this server's topics, and what it copies itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from seglog.clock import ticks
from seglog.errors import SeglogError
from seglog.log.copies import held
from seglog.log.log import Log
from seglog.replication.source import bytes_from
from seglog.server.api.operations import Call, Operation, json_answer
from seglog.server.api.schemas import BOOLEAN, COUNT, NUMBER, STRING, list_of, object_of, or_null
from seglog.server.rights.access import Caller
from seglog.server.routes.common import json_of
from seglog.server.runtime.following import Following

if TYPE_CHECKING:
    from seglog.server.services import Services
    from seglog.topic.topic import Topic

IN_SYNC_SECONDS = 10.0


async def _copies(call: Call) -> Response:
    services, caller = call.services, call.caller
    found = await call.services.groups.run(lambda: _of_all(services, caller))
    following = services.following
    _, role = services.broker.lineage
    return json_answer(
        {
            "term": max(role.term, role.fenced),
            "follows": None if following is None else _followed(following, caller),
            "copies": found,
        }
    )


def _of_all(services: Services, caller: Caller) -> list[dict[str, Any]]:
    """Return the copies by name, each with its partitions. Only an admin of a topic sees who copies it."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for topic in _topics(services, caller):
        for number in range(topic.partitions):
            for name, copy in _of_log(topic.partition(number)):
                by_name.setdefault(name, []).append({"topic": topic.name, "partition": number, **copy})
    return [{"name": name, "partitions": copies} for name, copies in sorted(by_name.items())]


def _topics(services: Services, caller: Caller) -> Iterator[Topic]:
    for name in services.broker.topics():
        if caller.may("admin", name):
            try:
                yield services.broker.topic(name)
            except SeglogError:  # deleted just now, or reported by /health
                continue


def _of_log(log: Log) -> Iterator[tuple[str, dict[str, Any]]]:
    view = log.view()
    reports, end = log._reports(), view.next_offset
    reached = held(reports, view.manifest.cuts, end)
    for copy, pins in sorted(reports.items()):
        last = max(pins, key=lambda pin: pin.updated)
        offset = reached.get(copy, 0)  # 0: it was cut, and has not followed yet
        values = {"copy": copy.removeprefix("mirror-"), "offset": offset, "seen": last.updated}
        records = log.records_from(offset)
        lag = {"records": records, "bytes": bytes_from(view, offset) if records else 0}
        in_sync = copy in reached and (records == 0 or _had_all_recently(log._complete_at(copy)))
        yield last.name or copy, {**values, **lag, "in_sync": in_sync}


def _had_all_recently(at: int | None) -> bool:
    return at is not None and ticks() - at <= IN_SYNC_SECONDS * 1_000_000


def _followed(following: Following, caller: Caller) -> dict[str, Any]:
    damaged = following.damaged
    partitions = [
        {
            "topic": topic,
            "partition": number,
            "records": lag.records,
            "bytes": lag.bytes,
            "seconds": lag.seconds,
            "error": str(damaged[topic, number]) if (topic, number) in damaged else None,
        }
        for (topic, number), lag in following.lags.items()
        if caller.may_anything(topic)
    ]
    problem = following.problem
    error = None if problem is None else str(problem)
    return {"leader": following.leader, "state": following.state, "error": error, "partitions": partitions}


COPY = object_of(
    {
        "topic": STRING,
        "partition": COUNT,
        "copy": STRING,
        "offset": COUNT,
        "seen": COUNT,
        "records": COUNT,
        "bytes": COUNT,
        "in_sync": BOOLEAN,
    }
)
LAG = object_of(
    {
        "topic": STRING,
        "partition": COUNT,
        "records": COUNT,
        "bytes": COUNT,
        "seconds": NUMBER,
        "error": or_null(STRING),
    }
)
FOLLOWS = object_of({"leader": STRING, "state": STRING, "error": or_null(STRING), "partitions": list_of(LAG)})
OPERATIONS = (
    Operation(
        "GET",
        "/copies",
        "copies",
        "The copies of this server's topics, with what each lacks; and what this server copies, if it follows another.",
        _copies,
        "token",
        {
            200: json_of(
                "They are listed.",
                {
                    "term": COUNT,
                    "follows": or_null(FOLLOWS),
                    "copies": list_of(object_of({"name": STRING, "partitions": list_of(COPY)})),
                },
            )
        },
    ),
)
