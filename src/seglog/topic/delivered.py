"""Progress of consumer groups, from a caller, a JSON text or a streaming query's checkpoint.

A delivered offset is exclusive: everything before it was delivered. A partition that a group does not name counts as
not delivered. Reads a checkpoint's files; opens no log and knows no Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from seglog.config import MAX_OFFSET
from seglog.errors import InvalidArgument, InvalidType
from seglog.format.foreign import UNREADABLE
from seglog.topic.layout.places import Partition
from seglog.topic.positions import Positions, from_json, from_values

CONSUMER = "consumer"
"""The group of delivered offsets without a group name."""

Delivered = Mapping[str, Positions] | Positions
"""Group -> topic -> partition -> offset; without groups, topic -> partition -> offset of group CONSUMER."""

Cuts = dict[str, dict[Partition, int]]
"""Group, sorted by name -> every partition -> the offset before which everything was delivered."""


def cuts_of(delivered: Delivered | None, there: Collection[Partition]) -> Cuts:
    """Return the delivered offset of every existing partition, 0 if none is given; no group for None.

    Raises InvalidArgument for an unknown partition or an offset below 0, InvalidType for a wrong type.
    """
    if delivered is None:
        return {}
    try:
        groups = by_group(delivered, there)
        return {group: _cuts(group, groups[group], there) for group in sorted(groups)}
    except (AttributeError, TypeError) as error:
        raise InvalidType(
            "delivered must be offsets by group, topic and partition, or by topic and partition, not "
            f"{type(delivered).__name__}: {error}"
        ) from error


def by_group(delivered: Delivered, there: Collection[Partition]) -> dict[str, Positions]:
    """Return the delivered offsets by group; CONSUMER if no group is named.

    If no offset is given at all, names that are not topics are groups.
    """
    named: Mapping[str, Any] = delivered
    return dict(named) if _names_groups(named, there) else {CONSUMER: named}


def _names_groups(delivered: Mapping[str, Mapping[Any, Any]], there: Collection[Partition]) -> bool:
    inner = [value for named in delivered.values() for value in named.values()]
    if inner:
        return any(isinstance(value, Mapping) for value in inner)
    return bool(delivered.keys() - {topic for topic, _ in there})


def _cuts(group: str, positions: Any, there: Collection[Partition]) -> dict[Partition, int]:
    named = {(topic, partition): offset for topic, of in positions.items() for partition, offset in of.items()}
    for topic, partition in sorted(named.keys() - set(there), key=str):
        if not isinstance(partition, int):
            raise InvalidType(f"delivered to {group!r}: a partition must be an int, not {type(partition).__name__}")
        raise InvalidArgument(f"delivered to {group!r}: there is no partition {partition} of topic {topic!r} here")
    for (topic, partition), offset in named.items():
        if isinstance(offset, bool) or not isinstance(offset, int):
            raise InvalidType(f"delivered to {group!r}: an offset must be an int, not {type(offset).__name__}")
        if not 0 <= offset <= MAX_OFFSET:
            raise InvalidArgument(
                f"delivered to {group!r}: {offset} is not a valid offset of partition {partition} of topic {topic!r}"
            )
    return {partition: int(named.get(partition, 0)) for partition in there}


def delivered_from_json(text: str, what: str) -> Delivered:
    """Parse {"group": {"topic": {"0": 23}}} or, for group CONSUMER, {"topic": {"0": 23}}.

    Raises InvalidArgument, naming `what`, for anything else.
    """
    try:
        return from_json(text, what)
    except InvalidArgument:
        pass  # then it names groups
    try:
        return {str(group): from_values(positions) for group, positions in json.loads(text).items()}
    except UNREADABLE as error:
        example = '{"group": {"topic": {"0": 23}}}'
        raise InvalidArgument(f"{what} must be JSON such as {example}, with or without groups, not {text!r}") from error


def read_checkpoint(directory: str | Path) -> dict[str, dict[int, int]]:
    """Return the offsets that a streaming query has committed in its checkpoint: topic -> partition -> next offset.

    With several sources in one query, the least offset of a partition counts. Without a committed batch the result is
    empty. Raises InvalidArgument if the directory is not a checkpoint or its sources are of another kind.
    """
    root = Path(directory)
    commits = root / "commits"
    if not commits.is_dir():
        raise InvalidArgument(f"{root} is not a checkpoint of a streaming query: it has no directory commits")
    batches = [int(entry.name) for entry in commits.iterdir() if re.fullmatch(r"\d+", entry.name)]
    if not batches:
        return {}
    offsets = root / "offsets" / str(max(batches))
    try:
        _, _, *sources = offsets.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"{offsets} cannot be read as the offsets of a batch: {error}") from error
    found: dict[str, dict[int, int]] = {}
    for text in sources:
        for topic, of in ({} if text == "-" else from_json(text, str(offsets))).items():
            known = found.setdefault(topic, {})
            for partition, offset in of.items():
                known[partition] = min(known.get(partition, offset), offset)
    return found
