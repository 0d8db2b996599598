"""Terms that clients carry: an old leader learns from them that another log was promoted, and stops.

An answer has the header `seglog-term: ID:TERM` once this server's logs were promoted or fenced. ID is that of the log
of groups, which copies share, so a term of other topics never counts here. A client sends the highest term that it has
seen. If that is higher than the server's, the request is refused (LogFenced) if it changes something, and what the
caller may change is fenced durably: everything with `*=admin`, the topic of the request with the right to write it.
Requests of others prove nothing, and fence nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from seglog.errors import InvalidArgument
from seglog.log.writer_state import fenced
from seglog.server.rights.access import EVERY, Caller
from seglog.server.runtime.fencing import fence_all, fence_topic

if TYPE_CHECKING:
    from seglog.format.manifest import Role
    from seglog.server.runtime.workers import Workers
    from seglog.topic.broker import Broker

HEADER = "seglog-term"
_SHAPE = re.compile(r"([0-9a-f]{16}):([0-9]{1,7})")
MOST_AHEAD = 1000
"""A higher term than this one is no result of promotions: who sends it must not use up the terms that there are."""


class Term(NamedTuple):
    """A term of some logs. source: the id of their log of groups, 16 hex digits."""

    source: str
    number: int


def parse(text: str | None) -> Term | None:
    """Return the term in a header; None without one. Raises InvalidArgument."""
    if text is None:
        return None
    found = _SHAPE.fullmatch(text.strip())
    if found is None:
        raise InvalidArgument(f"the header {HEADER} is {text[:80]!r}; it must be what a server has sent, ID:TERM")
    return Term(found[1], int(found[2]))


class Terms:
    """The term of a server."""

    def __init__(self, broker: Broker, workers: Workers) -> None:
        """workers: where logs are fenced."""
        self._broker = broker
        self._workers = workers
        self._known: tuple[Role | None, tuple[tuple[bytes, bytes], ...]] = (None, ())

    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Return what every answer has: the highest term that this server knows; nothing before the first promotion."""
        source, role = self._broker.lineage
        if role is not self._known[0]:
            number = max(role.term, role.fenced)
            text = f"{source}:{number}".encode()
            self._known = role, ((HEADER.encode(), text),) if number else ()
        return self._known[1]

    async def check(self, text: str | None, caller: Caller, topic: str | None, *, changes: bool) -> None:
        """Take the term that a request carries. topic: the one that the caller is about to change, None: no single one.

        Raises:
            LogFenced: If it is higher than this server's, and the request changes something.
            InvalidArgument: If it is no term, or one that promotions cannot have reached.
        """
        sent = parse(text)
        if sent is None:
            return
        source, role = self._broker.lineage
        if sent.source != source or sent.number <= role.term or role.copy:
            return
        if sent.number > max(role.term, role.fenced) + MOST_AHEAD:
            raise InvalidArgument(f"the header {HEADER} has term {sent.number}, and this server has {role.term}")
        if caller.may("admin", EVERY):
            if role.fenced <= role.term:
                await self._workers.run(partial(fence_all, self._broker, sent.number))
        elif changes and topic is not None:
            await self._workers.run(partial(fence_topic, self._broker, topic, sent.number))
        if changes:
            raise fenced(replace(role, fenced=max(sent.number, role.fenced)), str(self._broker.root))
