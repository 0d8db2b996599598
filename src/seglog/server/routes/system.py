"""The server about itself: health, readiness, metrics, the OpenAPI description, its page, and the console."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from seglog.errors import Unauthorized
from seglog.server.api.operations import Answer, Call, Operation, json_answer
from seglog.server.api.parameters import text
from seglog.server.api.schemas import COUNT, FAILURE, STRING, list_of
from seglog.server.problems import HttpProblem
from seglog.server.rights.access import NOBODY, Caller
from seglog.server.routes.common import json_of
from seglog.server.services import Services

FILE = text("file", "A file of the console.", pattern=r"[a-z0-9_-]+\.[a-z0-9]+", longest=80)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE = "index.html"
DOCS = "docs.html"


async def _health(call: Call) -> Response:
    """Report what does not work: failing housekeeping, logs that are poisoned or cannot be opened, a full disk.

    If the server requires tokens, names and errors are shown only to callers with a right on the topic.
    """
    services = call.services
    caller = _known(call)
    found = await services.groups.run(partial(failures, services))
    shortages = await services.groups.run(services.space.shortages)
    full = [{"log": one.what, "doing": "append", "error": one.error, "failures": one.times} for one in shortages]
    failing = [_shown(caller, failure) for failure in (*found, *full)]
    status = "failing" if found else "degraded" if full else "ok"
    free = await services.groups.run(services.space.free_bytes)
    return json_answer({"status": status, "failures": failing, "free_bytes": free}, 503 if failing else 200)


def _known(call: Call) -> Caller:
    """Return the caller; NOBODY without a token, as every caller gets an answer here."""
    try:
        return call.services.access.caller(call.headers.get("authorization"))
    except Unauthorized:
        return NOBODY


def _shown(caller: Caller, failure: dict[str, Any]) -> dict[str, Any]:
    topic = str(failure["log"]).partition("/")[0]
    if caller.may_anything(topic):
        return failure
    return {**failure, "log": "hidden", "error": "a token with a right on the topic shows the error"}


def failures(services: Services) -> list[dict[str, Any]]:
    """Return the failures that are not for lack of space, one entry per log."""
    found = [
        {"log": state.name, "doing": state.doing, "error": state.error, "failures": state.failures}
        for state in services.cleaner.state()
        if state.error is not None and state.failures
    ]
    unopened = [
        {"log": name, "doing": "closed", "error": str(error), "failures": 1}
        for name, error in services.broker.failed.items()
    ]
    poisoned = [
        {"log": name, "doing": "append", "error": str(error), "failures": 1}
        for name, error in services.broker.poisoned.items()
    ]
    unpublished = [
        {"log": name, "doing": "append a committed transaction", "error": str(error), "failures": 1}
        for name, error in services.broker.unpublished.items()
    ]
    following = services.following
    behind: dict[str, str] = {}
    if following is not None:
        behind = {f"{topic}/{number}": str(error) for (topic, number), error in following.damaged.items()}
        if following.problem is not None:
            behind["*"] = f"{following.state}: {following.problem}"
    not_copied = [{"log": name, "doing": "follow", "error": error, "failures": 1} for name, error in behind.items()]
    tables = {} if services.tables is None else services.tables.failures
    not_in_table = [
        {"log": topic, "doing": "table", "error": f"its table is not complete: {one.error}", "failures": one.rounds}
        for topic, one in tables.items()
    ]
    return [*found, *unopened, *poisoned, *unpublished, *not_copied, *not_in_table]


async def _ready(call: Call) -> Response:
    if call.services.waiting.stopped:
        raise HttpProblem(503, "the server is stopping")
    return json_answer({"status": "ready"})


async def _metrics(call: Call) -> Response:
    text = await call.services.reads.run(call.services.metrics.text)
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _description(call: Call) -> Response:
    from seglog.server.api.openapi import describe  # noqa: PLC0415 - it describes this operation too
    from seglog.server.routes import OPERATIONS as ALL  # noqa: PLC0415 - as above

    services = call.services
    if services.description is None:
        told = describe(ALL, tokens=services.access.asks, partitions=services.settings.limits.partitions)
        services.description = json.dumps(told).encode()
    return Response(services.description, media_type="application/json")


async def _page(call: Call) -> Response:
    return _file(call, PAGE)


async def _docs(call: Call) -> Response:
    return _file(call, DOCS)


async def _console_file(call: Call) -> Response:
    return _file(call, call.values["file"])


def _file(call: Call, name: str) -> Response:
    from seglog.server.console import files  # noqa: PLC0415 - read from the package at the first request

    found = files().get(name)
    if found is None:
        raise HttpProblem(404, f"the console has no file {name!r}")
    media, content, etag = found
    headers = {
        "Content-Security-Policy": POLICY,
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
        "ETag": etag,
    }
    if call.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media)


HEALTH = {"status": STRING, "failures": list_of(FAILURE), "free_bytes": COUNT}
HTML = {200: Answer("The page.", {"text/html": STRING})}
OPERATIONS = (
    Operation("GET", "/", "page", "The console.", _page, "nothing", HTML),
    Operation("GET", "/console", "console", "The console.", _page, "nothing", HTML),
    Operation(
        "GET",
        "/console/{file}",
        "console_file",
        "A file of the console.",
        _console_file,
        "nothing",
        {200: Answer("The file.", {"*/*": STRING})},
        (FILE,),
    ),
    Operation(
        "GET",
        "/health",
        "health",
        "Whether all logs and their housekeeping work.",
        _health,
        "nothing",
        {
            200: json_of("Everything works.", HEALTH),
            503: json_of("Something does not work.", HEALTH),
        },
    ),
    Operation(
        "GET",
        "/ready",
        "ready",
        "Whether requests are accepted.",
        _ready,
        "nothing",
        {200: json_of("They are accepted.", {"status": STRING})},
    ),
    Operation(
        "GET",
        "/metrics",
        "metrics",
        "Metrics for Prometheus.",
        _metrics,
        "read",
        {200: Answer("Metrics as text.", {"text/plain": STRING})},
    ),
    Operation("GET", "/docs", "docs", "The description as a page.", _docs, "nothing", HTML),
    Operation(
        "GET",
        "/openapi.json",
        "openapi",
        "This description.",
        _description,
        "nothing",
        {200: Answer("OpenAPI 3.1.", {"application/json": {"type": "object"}})},
    ),
)
