"""What a server tells of topics, as values. Groups have theirs in seglog.topic.groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from seglog.config import LogConfig, Retention
from seglog.format.cuts import Cuts

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.topic.places import Partition
    from seglog.topic.trace import Passage

Ack = Literal["appended", "durable"]
"""When an append is answered: as soon as readers can see it, or once it survives power loss."""


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic. id: 32 hex digits, drawn when it was created; records, bytes: of all partitions together."""

    name: str
    id: str
    partitions: int
    records: int
    bytes: int
    config: LogConfig

    @property
    def retention(self) -> Retention:
        """What it keeps: a part of the config."""
        return self.config.retention

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TopicInfo:
        """Read what the server says of a topic."""
        return cls(
            values["name"],
            values["id"],
            values["partitions"],
            values["records"],
            values["bytes"],
            LogConfig.from_json({**values["config"], "retention": values["retention"]}),
        )


class Bounds(NamedTuple):
    """Offsets of one partition: of the first record it holds, of the next append, and before which all is durable."""

    lowest_offset: int
    next_offset: int
    durable_offset: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition at one moment: its bounds, and of which state of which log they are. bytes: of all stores.

    initial_offset: what its first record ever got. log: the log's identity, hex; epoch: grows with each truncate;
    version: grows with each change of its segments, but not with appends. cuts: where it was truncated.
    """

    lowest_offset: int
    next_offset: int
    durable_offset: int
    bytes: int
    initial_offset: int
    log: str
    epoch: int
    version: int
    cuts: Cuts

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> PartitionState:
        """Read what the server says of a partition."""
        known = {name: values[name] for name in cls.__slots__ if name != "cuts"}
        return cls(**known, cuts=Cuts.from_json(values, known["epoch"]))


@dataclass(frozen=True, slots=True)
class SegmentState:
    """One segment, as `seglog.log.info.SegmentInfo`; file: the number of its file, which only grows."""

    base_offset: int
    next_offset: int
    bytes: int
    records: int
    min_timestamp: int | None
    max_timestamp: int | None
    sealed_at: int | None
    dense: bool
    file: int

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> SegmentState:
        """Read what the server says of a segment."""
        return cls(**{name: values[name] for name in cls.__slots__})


class PartitionInfo(NamedTuple):
    """A partition and all its segments, the active one last, at one moment."""

    state: PartitionState
    segments: tuple[SegmentState, ...]


class Page(NamedTuple):
    """What one request brought of a range: batches, where to go on, and of which log, at which epoch of it, they are.

    Where the page before is of the same log and epoch nothing was truncated between the two. size: bytes of the answer.
    """

    batches: list[pa.RecordBatch]
    next_offset: int
    log: str
    epoch: int
    size: int


class Fetched(NamedTuple):
    """What one request brought of several partitions: an Arrow stream, and by topic and partition where to go on.

    passages: of which logs that is, as far as the server told.
    """

    body: bytes
    next_offsets: dict[str, dict[int, int]]
    passages: dict[Partition, Passage]
