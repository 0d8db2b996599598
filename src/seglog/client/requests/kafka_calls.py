"""Requests about the clients of Kafka's protocol, for operators. Pure."""

from __future__ import annotations

from typing import Any, Literal

from seglog.client.requests.call import Call
from seglog.client.requests.topic_calls import body_of, target
from seglog.errors import InvalidArgument
from seglog.record import checked_offset


def listed(what: Literal["connections", "groups", "producers"], after: str | None, limit: int) -> Call[dict[str, Any]]:
    """Get a page of a list. Raises InvalidArgument, InvalidType."""
    if after is not None and not (isinstance(after, str) and after.isascii()):
        raise InvalidArgument(f"after is {after!r:.80}; give what the page before has")
    query = {"after": after, "limit": checked_offset(limit, "limit")}
    return Call("GET", target(f"/kafka/{what}", query), body_of)
