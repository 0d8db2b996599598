"""Tokens: what the caller may do, and for operators which tokens there are."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from seglog.server.api.operations import Call, Operation, json_answer
from seglog.server.api.schemas import STRING, list_of
from seglog.server.rights.access import EVERY, Caller
from seglog.server.routes.common import json_of

RIGHTS = {"type": "object", "additionalProperties": list_of(STRING)}
TOKEN = {
    "type": "object",
    "properties": {"name": STRING, "rights": RIGHTS, "groups": list_of(STRING)},
    "required": ["name", "rights", "groups"],
}


def _shown(caller: Caller) -> dict[str, Any]:
    """Return a caller's name, rights and groups; a server holds no token, only its hash, which is not shown."""
    rights = {topic: sorted(words) for topic, words in sorted(caller.rights.items())}
    return {"name": caller.name, "rights": rights, "groups": list(caller.groups)}


async def _access(call: Call) -> Response:
    access = call.services.access
    tokens = [_shown(one) for one in access.callers()] if call.caller.may("admin", EVERY) else []
    return json_answer({"required": access.asks, "caller": _shown(call.caller), "tokens": tokens})


OPERATIONS = (
    Operation(
        "GET",
        "/access",
        "access",
        "Show what the caller may do; with admin on all topics, what every token may do.",
        _access,
        "token",
        {
            200: json_of(
                "The caller, and the tokens that it may see.",
                {"required": {"type": "boolean"}, "caller": TOKEN, "tokens": list_of(TOKEN)},
            )
        },
    ),
)
