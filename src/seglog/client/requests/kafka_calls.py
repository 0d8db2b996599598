"""Requests about the clients of Kafka's protocol, for operators. Pure."""

from __future__ import annotations

from typing import Any, Literal

from seglog.client.requests.call import Call
from seglog.client.requests.topic_calls import body_of, target


def listed(what: Literal["connections", "groups", "producers"], after: str | None, limit: int) -> Call[dict[str, Any]]:
    """Get a page of a list."""
    return Call("GET", target(f"/kafka/{what}", {"after": after, "limit": limit}), body_of)
