"""The offsets of a streaming query in its checkpoint: JSON that a person can read.

    {"orders": {"0": {"offset": 17, "from": 3, "log": "5f0c9a61be27d804", "epoch": 0, "file": 2}, "1": ...}}

offset: the next one to read. from: where the micro-batch that ends here started: so a batch can be read again from its
end alone, also the first one, whose start Spark does not keep. log, epoch, file: identify the records below, to detect
later that they changed (see `loss`); file is null if nothing was read yet. wait, if present: how many micro-batches
pass before the first record is read (`seglog.spark.catch_up` reads a table meanwhile).

Pure. Equal offsets have equal text: topics and partitions are sorted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seglog.errors import InvalidArgument
from seglog.format.foreign import UNREADABLE
from seglog.spark.read.data_loss import Position

if TYPE_CHECKING:
    from seglog.topic.layout.places import Partition

Json = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Progress:
    """One partition's part of a stream's offsets: its position, and where the micro-batch before it started.

    wait: how many micro-batches pass before a record is read.
    """

    position: Position
    start: int
    wait: int = 0


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
            **({"wait": part.wait} if part.wait else {}),
        }
    return topics


def decode(topics: Mapping[str, Any]) -> dict[Partition, Progress]:
    """Parse `encode`'s text. Raises InvalidArgument for anything else."""
    try:
        return {
            (topic, int(partition)): Progress(
                Position(int(part["offset"]), str(part["log"]), int(part["epoch"]), part["file"]),
                int(part["from"]),
                int(part.get("wait", 0)),
            )
            for topic, partitions in topics.items()
            for partition, part in partitions.items()
        }
    except UNREADABLE as error:
        raise InvalidArgument(f"the checkpoint holds offsets that are not of format seglog: {topics}") from error
