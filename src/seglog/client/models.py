"""What a server reports about topics, as values. Those of groups are in seglog.topic.groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from seglog.config import Expose, LogConfig, Retention
from seglog.format.cuts import Cuts
from seglog.log.history import KNOWN, Snapshot, Trace, files_in
from seglog.policies import Policies, parted

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.topic.layout.places import Partition
    from seglog.topic.read_trace import Passage

Ack = Literal["appended", "durable", "archived", "mirrored"]
"""When an append is answered: "appended", when readers can see it; "durable", when it survives power loss; "archived",
when the archive has it, too; "mirrored", when copies have it on their disks, too.
"""


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic. id: 32 hex digits, random, set at its creation; records, bytes: of all partitions together.

    unknown: the settings of a server of a newer version that this one does not know: name -> value.
    policies: what it wants of requests.
    """

    name: str
    id: str
    partitions: int
    records: int
    bytes: int
    config: LogConfig
    unknown: Mapping[str, Any] = field(default_factory=dict, hash=False)
    policies: Policies = field(default_factory=Policies)

    @property
    def retention(self) -> Retention:
        """The topic's retention, a part of its config."""
        return self.config.retention

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TopicInfo:
        """Parse a topic as the server reports it."""
        config, unknown = LogConfig.from_any_version({**values["config"], "retention": values["retention"]})
        given = values.get("policies", parted(values["retention"])[1])  # in the retention: an earlier version
        policies, unknown_policies = Policies.from_any_version(given)
        figures = {name: values[name] for name in ("name", "id", "partitions", "records", "bytes")}
        return cls(**figures, config=config, policies=policies, unknown=unknown | unknown_policies)


class Bounds(NamedTuple):
    """Offsets of a partition: lowest, next, and the one before which everything is durable."""

    lowest_offset: int
    next_offset: int
    durable_offset: int

    def end(self, expose: Expose) -> int:
        """Return the offset before which records are read."""
        return self.durable_offset if expose == "durable" else self.next_offset


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition at one moment: its bounds, and the identity and version of its log. bytes: of all stores.

    initial_offset: the first offset ever assigned. log: the log's identity, hex; epoch: grows with each truncate;
    version: grows with each change of its segments except appends. cuts: where it was truncated.
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

    def end(self, expose: Expose) -> int:
        """Return the offset before which records are read."""
        return self.durable_offset if expose == "durable" else self.next_offset

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> PartitionState:
        """Parse a partition as the server reports it."""
        known = {name: values[name] for name in cls.__slots__ if name != "cuts"}
        return cls(**known, cuts=Cuts.from_json(values, known["epoch"]))


@dataclass(frozen=True, slots=True)
class SegmentState:
    """A segment, as `seglog.log.info.SegmentInfo`; file: the number of its file, which only grows."""

    base_offset: int
    next_offset: int
    bytes: int
    records: int
    min_timestamp: int | None
    max_timestamp: int | None
    sealed_at: int | None
    dense: bool
    file: int
    codec: str | None = None
    plain_bytes: int = 0

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> SegmentState:
        """Parse a segment as the server reports it; earlier servers know no codec."""
        return cls(**{name: values[name] for name in cls.__slots__ if name in values})


class PartitionInfo(NamedTuple):
    """A partition and all its segments, the active one last, at one moment."""

    state: PartitionState
    segments: tuple[SegmentState, ...]

    def _snapshot_of(self, start: int, stop: int) -> Snapshot:
        """Return what the offsets start..stop hold; as `seglog.log.view.View._snapshot_of`."""
        state, sealed, active = self.state, self.segments[:-1], self.segments[-1]
        stores = [
            *((one.base_offset, one.next_offset, one.file) for one in sealed),
            (active.base_offset, None, active.file),
        ]
        last = [file for base, _, file in stores if base < stop]
        file = KNOWN if state.cuts.is_known_at(stop) or not last else last[-1]
        return Snapshot(
            stop, Trace(state.log, state.cuts.epoch_at(stop), file), state.version, files_in(stores, start, stop)
        )


class Page(NamedTuple):
    """One answer of a range: batches, the next offset, and the identity and epoch of the log.

    If the page before has the same log and epoch, nothing was truncated in between. size: bytes of the answer.
    snapshot: what the next page of the range asks for; None: the server is an older one, which has no snapshots.
    """

    batches: list[pa.RecordBatch]
    next_offset: int
    log: str
    epoch: int
    size: int
    snapshot: str | None = None


class Fetched(NamedTuple):
    """One answer from several partitions: an Arrow stream, and topic -> partition -> the next offset.

    passages: the logs it comes from, as far as the server reports them.
    """

    body: bytes | memoryview
    next_offsets: dict[str, dict[int, int]]
    passages: dict[Partition, Passage]
