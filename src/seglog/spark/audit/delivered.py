"""Delivered offsets of consumer groups, as a caller of the audit job may give them: offsets, or a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from seglog.errors import InvalidType
from seglog.topic import delivered as said
from seglog.topic.delivered import Cuts
from seglog.topic.layout.places import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Delivered = Union[said.Delivered, "DataFrame", None]


def delivered_offsets(delivered: Delivered, places: Sequence[Place]) -> Cuts:
    """Return the delivered offsets of every place by group, no group if none are given; as `cuts_of`.

    A DataFrame has columns topic, partition and offset, and optionally group.
    """
    if delivered is not None and not isinstance(delivered, Mapping):
        if not hasattr(delivered, "collect"):
            kind = type(delivered).__name__
            raise InvalidType(f"delivered must be offsets by topic, or by group and topic, or a DataFrame, not {kind}")
        delivered = _positions(delivered)
    return said.cuts_of(delivered, [place.key for place in places])


def _positions(frame: DataFrame) -> dict[str, Any]:
    columns = ["topic", "partition", "offset"]
    grouped = "group" in frame.columns
    found: dict[str, Any] = {}
    for row in frame.select(*columns, *["group"] * grouped).collect():
        topics = found.setdefault(row["group"], {}) if grouped else found
        topics.setdefault(row["topic"], {})[row["partition"]] = row["offset"]
    return found
