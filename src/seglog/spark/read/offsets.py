"""The offsets of a streaming query, as they stand in its checkpoint: JSON that a person can read.

    {"orders": {"0": {"offset": 17, "from": 3, "log": "5f0c9a61be27d804", "epoch": 0, "file": 2}, "1": ...}}

offset: the next one to read. from: where the micro-batch that ends here began: with it a batch is read again from its
end alone, also the first one, whose start Spark does not keep. log, epoch, file: what tells later whether the records
below are still the same (see `loss`); file is null where nothing was read yet.

Pure. Equal offsets have equal text: topics and partitions are ordered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seglog.errors import InvalidArgument
from seglog.format.foreign import UNREADABLE
from seglog.spark.read.loss import Position

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seglog.topic.places import Partition

Json = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Progress:
    """One partition's part of a stream's offsets: where it stands, and where the micro-batch that led there began."""

    position: Position
    start: int


def encode(progress: Mapping[Partition, Progress]) -> Json:
    """Return the JSON of a stream's offsets."""
    topics: Json = {}
    for (topic, partition), part in sorted(progress.items()):
        topics.setdefault(topic, {})[str(partition)] = {
            "offset": part.position.offset,
            "from": part.start,
            "log": part.position.log,
            "epoch": part.position.epoch,
            "file": part.position.file,
        }
    return topics


def decode(topics: Mapping[str, Any]) -> dict[Partition, Progress]:
    """Read what `encode` gave; InvalidArgument where it is something else."""
    try:
        return {
            (topic, int(partition)): Progress(
                Position(int(part["offset"]), str(part["log"]), int(part["epoch"]), part["file"]), int(part["from"])
            )
            for topic, partitions in topics.items()
            for partition, part in partitions.items()
        }
    except UNREADABLE as error:
        raise InvalidArgument(f"the checkpoint holds offsets that are none of format seglog's: {topics}") from error
