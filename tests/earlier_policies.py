"""Topics as versions before `seglog.Policies` left them: the policies are in the retention of each log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import seglog
from seglog.log.log import Log

if TYPE_CHECKING:
    from pathlib import Path

    from seglog import Policies, Topic


def store_with_logs(topic: Topic, policies: Policies) -> None:
    """Store policies with every log of a topic, which has none of its own."""
    for number in range(topic.partitions):
        _store(topic.partition(number), policies)


def alter_with_logs(path: Path, policies: Policies) -> None:
    """Store policies with every log of a topic that is not open, as a writer of such a version does."""
    for place in sorted(path.glob("[0-9]*")):
        with seglog.open(place) as log:
            _store(log, policies)


def _store(log: Log, policies: Policies) -> None:
    live: Any = log._state.live  # type: ignore[attr-defined] # of the writer
    live.configure(replace(live.config, retention=replace(live.config.retention, _moved=policies)))
