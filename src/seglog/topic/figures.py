"""Figures of a topic as JSON values: what the server and the command line show of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seglog.topic.topic import Topic


def figures_of(topic: Topic) -> dict[str, Any]:
    """Return name, id, partitions, records, bytes, retention, policies and config; records and bytes of all partitions
    together.

    The config contains the retention as well.
    """
    logs = [topic.partition(number) for number in range(topic.partitions)]
    config = logs[0].config.to_json()
    return {
        "name": topic.name,
        "id": topic.id,
        "partitions": topic.partitions,
        "records": sum(segment.records for log in logs for segment in log.segments),
        "bytes": sum(log.size for log in logs),
        "retention": config["retention"],
        "policies": asdict(topic.policies),
        "config": config,
    }
