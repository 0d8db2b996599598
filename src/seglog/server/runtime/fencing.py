"""Make a server's logs reject all changes: another leader has taken over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seglog.topic.broker import Broker


def fence_all(broker: Broker, term: int | None = None) -> None:
    """Fence every log, the groups first: without them no consumer commits anything more.

    term: of the new leader; None: it is unknown, but higher than that of each log.
    """
    logs = [broker.groups.log]
    logs += [
        topic.partition(number) for topic in map(broker.topic, broker.topics()) for number in range(topic.partitions)
    ]
    for log in logs:
        role = log.view().manifest.role
        wanted = role.term + 1 if term is None else term
        if role.term < wanted and role.fenced <= role.term:
            log.fence(wanted)
