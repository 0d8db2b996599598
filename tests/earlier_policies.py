"""Topics as versions before `seglog.Policies` left them: the policies are in the retention of each log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seglog import Policies, Topic


def store_with_logs(topic: Topic, policies: Policies) -> None:
    """Store policies with every log of a topic, which has none of its own."""
    for number in range(topic.partitions):
        live: Any = topic.partition(number)._state.live  # type: ignore[attr-defined] # of the writer
        live.configure(replace(live.config, retention=replace(live.config.retention, _moved=policies)))
