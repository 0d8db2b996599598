"""Open a directory of topics for a command: read-only beside a writer, or exclusively to change it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import seglog
from seglog.cli.lock_wait import patiently
from seglog.errors import LogLocked
from seglog.terminal import output

if TYPE_CHECKING:
    from seglog.topic.broker import Broker


def looking(root: str) -> Broker:
    """Open read-only; create nothing."""
    return seglog.Broker(root, mode="r")


@contextmanager
def changing(root: str, over_http: str, *, create: bool = False, wait: float | None = None) -> Iterator[Broker]:
    """Open exclusively for a change; print what recovery did on stderr.

    over_http: the request that does the same on a server, for the hint in LogLocked. create: whether the directory may
    be created. wait: seconds to wait for another process that holds it.
    """
    if not create:
        looking(root).close()
    try:
        with patiently(lambda: seglog.Broker(root), wait) as broker:
            for event in broker.recovered:
                output.note(f"recovery: {event}")
            yield broker
    except LogLocked as error:
        error.add_note(f"if that process is `seglog serve`, use its HTTP API instead: {over_http}")
        raise
