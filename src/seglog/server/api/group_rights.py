"""Who may use a consumer group.

    owned      a token in the token file lists its name: its owners, and tokens that administer all topics
    any other  every token that may read all topics that the group reads or has committed offsets of

A new group without an owner belongs to the token that creates it. No refusal and no list names a group or topic that
the caller has no right on, and a group without an owner that the caller may not use looks as if it did not exist: only
an attempt to create it shows that the name is taken. The functions query the groups, which lock: call them on a thread.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from seglog.errors import Forbidden, GroupNotFound, SeglogError
from seglog.server.rights.access import EVERY, Caller, Right
from seglog.server.runtime.shares import ShareFull

if TYPE_CHECKING:
    from seglog.server.services import Services
    from seglog.topic.groups import GroupState
    from seglog.topic.groups.charges import Payer


class Asking(Protocol):
    """A request of any protocol."""

    @property
    def caller(self) -> Caller:
        """Who sent it."""
        ...

    @property
    def services(self) -> Services:
        """The parts of the server."""
        ...

    @property
    def payer(self) -> str:
        """Whose share what is kept for the caller counts against: its token, or its address if there are no tokens."""
        ...


def may_use(call: Asking, group: str, right: Right = "read") -> bool:
    """Whether the caller may use a group, existing or new. right: needed on all topics of a group without an owner."""
    caller, services = call.caller, call.services
    if caller.may("admin", EVERY):
        return True
    if services.access.is_owned(group):
        return caller.owns(group)
    try:
        topics = services.broker.groups.topics(group)
    except GroupNotFound:
        return True
    return all(caller.may(right, topic) for topic in topics)


def require(call: Asking, group: str, right: Right = "read") -> None:
    """Raise Forbidden unless the caller may use the group."""
    if not may_use(call, group, right):
        raise Forbidden(
            f"the token {call.caller.name!r} may not use the group {group!r}: it belongs to another token, or needs "
            f"the right {right!r} on more topics than this token has"
        )


def require_visible(call: Asking, group: str, right: Right, absent: SeglogError) -> None:
    """Raise as `require` does, but `absent`, as for a group that does not exist, if the caller may not know of it.

    Whether a token owns a group does not depend on its existence, so that refusal reveals nothing.
    """
    if not call.services.access.is_owned(group) and not may_use(call, group):
        raise absent
    require(call, group, right)


def admit(call: Asking, group: str) -> None:
    """Raise as `require` does, and ShareFull if the caller would create more groups than a token may have."""
    require(call, group)
    services, caller = call.services, call.caller
    if caller.may("admin", EVERY) or services.access.is_owned(group):
        return
    made = services.groups_made.setdefault(caller.name, set())
    if group in made:
        return
    try:
        services.broker.groups.topics(group)
    except GroupNotFound:
        if len(made) >= services.settings.limits.groups:
            made.intersection_update(services.broker.groups.names())
        if len(made) >= services.settings.limits.groups:
            raise ShareFull(
                f"the token {caller.name!r} has created {len(made)} groups, the limit; delete some, or let the "
                "token own their names (`groups` in the token file)"
            ) from None
        for others in services.groups_made.values():  # it counts once, also if it was deleted meanwhile
            others.discard(group)
        made.add(group)


def payer(call: Asking) -> Payer:
    """Return the caller as who pays for members and committed offsets of groups."""
    return call.services.kept_groups.payer(call.payer)


def shown(call: Asking, state: GroupState) -> GroupState:
    """Return a group without the topics that the caller may not read, which an owned group can have."""
    caller = call.caller
    members = tuple(
        replace(
            member,
            topics=tuple(topic for topic in member.topics if caller.may("read", topic)),
            assignment=tuple(place for place in member.assignment if caller.may("read", place[0])),
        )
        for member in state.members
    )
    committed = {topic: of for topic, of in state.committed.items() if caller.may("read", topic)}
    lag = {place: records for place, records in state.lag.items() if caller.may("read", place[0])}
    return replace(state, members=members, committed=committed, lag=lag)
