"""Topics as versions before `seglog.Policies` left them: the policies are in the retention of each log."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import seglog
from seglog import Policies, Topic
from seglog.log.log import Log

if TYPE_CHECKING:
    from pathlib import Path


SERVER = Policies(copies=2, timestamps="server")


def stored(topic: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((topic / "topic.json").read_text())
    return values


def with_logs(topic: Path) -> list[bool]:
    """Return whether the manifest of each log has policies."""
    with Topic.open(topic, mode="r") as read:
        logs = [read.partition(number) for number in range(read.partitions)]
        return ["copies" in log.config.to_json()["retention"] for log in logs]


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


def fails_of(one: Any) -> Any:
    """Return an `alter` that fails for one log once it has something to change."""
    alter = type(one).alter

    def failing(log: Any, **changes: Any) -> None:
        if log is one and changes:
            raise seglog.StorageError(28, "no space", log.path)
        alter(log, **changes)

    return failing
