"""Make a server's logs reject all changes: another leader has taken over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seglog.log.log import Log
    from seglog.topic.broker import Broker


def fence_all(broker: Broker, term: int | None = None) -> None:
    """Fence every log, the groups first: without them no consumer commits anything more.

    term: of the new leader; None: it is unknown, but higher than that of each log.
    """
    _fence(broker.groups.log, term)
    for name in broker.topics():
        fence_topic(broker, name, term)


def fence_topic(broker: Broker, name: str, term: int | None = None) -> None:
    """Fence the partitions of a topic; term: as above."""
    topic = broker.topic(name)
    for number in range(topic.partitions):
        _fence(topic.partition(number), term)


def _fence(log: Log, term: int | None) -> None:
    role = log.view().manifest.role
    wanted = role.term + 1 if term is None else term
    if role.term < wanted and role.accepts:
        log.fence(wanted)
