"""Opening a directory of topics for a command: to look at it beside whoever writes, or to change it alone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import seglog
from seglog.cli.waiting import patiently
from seglog.errors import LogLocked
from seglog.terminal import output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seglog.topic.broker import Broker


def looking(root: str) -> Broker:
    """Open to read; creates nothing."""
    return seglog.Broker(root, mode="r")


@contextmanager
def changing(root: str, over_http: str, *, create: bool = False, wait: float | None = None) -> Iterator[Broker]:
    """Open for a change, alone; what had to be set right on the way is told on stderr.

    over_http: the call that does the same on a server; told with LogLocked. create: whether the directory may be new.
    wait: seconds to wait for another process that holds it.
    """
    if not create:
        looking(root).close()
    try:
        with patiently(lambda: seglog.Broker(root), wait) as broker:
            for event in broker.recovered:
                output.note(f"recovery: {event}")
            yield broker
    except LogLocked as error:
        error.add_note(f"if that is `seglog serve`, its HTTP API does the same: {over_http}")
        raise
