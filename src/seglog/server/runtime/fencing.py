"""Make a server's logs reject all changes: another leader has taken over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from seglog.errors import SeglogError

if TYPE_CHECKING:
    from seglog.log.log import Log
    from seglog.topic.broker import Broker


def fence_all(broker: Broker, term: int | None = None) -> None:
    """Fence every log, the groups first: without them no consumer commits anything more.

    An error of one log, such as a damaged topic, is raised once all others are fenced.

    term: of the new leader; None: it is unknown, but higher than that of each log.
    """
    failures: list[SeglogError] = []
    with broker._structure:  # a topic that is being created is fenced, too
        _try(failures, partial(_fence, broker.groups.log, term))
        for name in broker.topics():
            _try(failures, partial(fence_topic, broker, name, term))
    if failures:
        raise failures[0]


def fence_topic(broker: Broker, name: str, term: int | None = None) -> None:
    """Fence the partitions of a topic; term and errors as above."""
    topic = broker.topic(name)
    failures: list[SeglogError] = []
    for number in range(topic.partitions):
        _try(failures, partial(_fence, topic.partition(number), term))
    if failures:
        raise failures[0]


def _try(failures: list[SeglogError], fence: Callable[[], None]) -> None:
    try:
        fence()
    except SeglogError as error:
        failures.append(error)


def _fence(log: Log, term: int | None) -> None:
    role = log._own_view().manifest.role
    wanted = role.term + 1 if term is None else term
    if role.term < wanted and role.accepts:
        log.fence(wanted)
