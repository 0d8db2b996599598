"""Requests about consumer groups. In the style of `calls`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from seglog.client.models import Ack
from seglog.client.requests.call import Answer, Call
from seglog.client.requests.topic_calls import body_of, checked_ack, exposed, nothing, posted
from seglog.config import Expose
from seglog.errors import InvalidArgument
from seglog.topic.groups.arguments import checked_offsets, checked_timeout, checked_topics
from seglog.topic.groups.state import GroupState, Membership, MemberState
from seglog.topic.layout.names import checked_group, checked_name
from seglog.topic.positions import Positions, flat, from_values, nested


def group_path(group: str, rest: str = "") -> str:
    """Return the path of a group. Raises InvalidArgument for an invalid name."""
    return f"/groups/{quote(checked_group(group), safe='')}{rest}"


def groups() -> Call[list[str]]:
    """List all groups."""
    return Call("GET", "/groups", lambda answer: list(body_of(answer)["groups"]))


def group(name: str) -> Call[GroupState]:
    """Describe a group: members, committed offsets, lag."""

    def read(answer: Answer) -> GroupState:
        said = body_of(answer)
        lag = flat(from_values(said["lag"]))
        members = tuple(_member(one) for one in said["members"])
        return GroupState(said["name"], said["generation"], members, from_values(said["committed"]), lag)

    return Call("GET", group_path(name), read)


def delete_group(name: str) -> Call[None]:
    """Delete a group without members."""
    return Call("DELETE", group_path(name), nothing, repeatable=False)


def join(name: str, topics: Iterable[str], *, member: str, session_timeout: float) -> Call[Membership]:
    """Join under an id chosen by the client, so that a repeated request adds no second member."""
    body = {
        "topics": list(checked_topics(topics)),
        "member": checked_name(member, "member"),
        "session_timeout": checked_timeout(session_timeout),
    }
    return posted(group_path(name, "/members"), body, _membership)


def heartbeat(name: str, member: str, generation: int) -> Call[Membership]:
    """Send a heartbeat."""
    return posted(group_path(name, f"/members/{member}/heartbeat"), {"generation": generation}, _membership)


def leave(name: str, member: str) -> Call[None]:
    """Leave a group."""
    return Call("DELETE", group_path(name, f"/members/{member}"), nothing)


def committed(name: str) -> Call[dict[str, dict[int, int]]]:
    """Return a group's committed offsets: topic -> partition -> the next offset to read."""
    return Call("GET", group_path(name, "/offsets"), lambda answer: from_values(body_of(answer)["offsets"]))


def _ack(ack: Ack) -> str:
    if checked_ack(ack) not in ("appended", "durable"):
        raise InvalidArgument('a commit of offsets has ack "appended" or "durable"; they are copied with the records')
    return ack


def commit(name: str, offsets: Positions, *, member: str | None, ack: Ack) -> Call[None]:
    """Commit offsets, all or none; repeating it has no further effect."""
    body: dict[str, Any] = {"offsets": nested(checked_offsets(offsets)), "ack": _ack(ack)}
    if member is not None:
        body["member"] = member
    return posted(group_path(name, "/offsets"), body, nothing)


def lag(positions: Positions, expose: Expose = "appended") -> Call[dict[str, dict[int, int]]]:
    """Count the records from positions on: topic -> partition -> records."""
    body = {"positions": nested(checked_offsets(positions)), **exposed(expose)}
    return posted("/lag", body, lambda answer: from_values(body_of(answer)["lag"]))


def _membership(answer: Answer) -> Membership:
    said = body_of(answer)
    assignment = tuple((str(topic), int(number)) for topic, number in said["assignment"])
    return Membership(said["member"], said["generation"], assignment)


def _member(said: Mapping[str, Any]) -> MemberState:
    assignment = tuple((topic, number) for topic, number in said["assignment"])
    named = {"topics": tuple(said["topics"]), "assignment": assignment}
    return MemberState(**{**said, **named})
