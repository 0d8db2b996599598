"""How far a consumer has come: from offsets, a DataFrame, or the checkpoint of a streaming query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Union

from seglog.errors import InvalidArgument, InvalidType
from seglog.spark.jobs.pins import Positions, from_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from seglog.spark.read.place import Place

Delivered = Union[Positions, "DataFrame", None]
Cuts = dict[tuple[str, int], int]


def delivered_offsets(delivered: Delivered, places: Sequence[Place]) -> Cuts | None:
    """Return (topic, partition) -> the offset before which all was delivered, 0 where none is named; None if not asked.

    InvalidArgument for a partition that is not there.
    """
    if delivered is None:
        return None
    if isinstance(delivered, Mapping):
        named = {(topic, partition): offset for topic, of in delivered.items() for partition, offset in of.items()}
    elif hasattr(delivered, "collect"):
        rows = delivered.select("topic", "partition", "offset").collect()
        named = {(row["topic"], row["partition"]): row["offset"] for row in rows}
    else:
        raise InvalidType(f"delivered must be offsets by topic or a DataFrame, not {type(delivered).__name__}")
    there = {place.key for place in places}
    for topic, partition in sorted(named.keys() - there):
        raise InvalidArgument(f"delivered: there is no partition {partition} of topic {topic!r} here")
    return {key: named.get(key, 0) for key in there}


def read_checkpoint(directory: str | Path) -> dict[str, dict[int, int]]:
    """Return the offsets that a streaming query has committed in its checkpoint: topic -> partition -> next offset.

    Of several sources in one query, the least offset of a partition counts. No committed batch: nothing was delivered,
    and the result is empty. InvalidArgument where the directory is no checkpoint or its sources are not of this kind.
    """
    root = Path(directory)
    commits = root / "commits"
    if not commits.is_dir():
        raise InvalidArgument(f"{root} is no checkpoint of a streaming query: it has no directory commits")
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
