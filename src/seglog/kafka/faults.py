"""Why a request is refused, beyond the errors that the rest of seglog has."""

from __future__ import annotations

from seglog.errors import SeglogError, TopicNotFound


class StaleEpoch(SeglogError):
    """The client knows an older epoch of the log: it was truncated since."""


class FutureEpoch(SeglogError):
    """The client knows a newer epoch of the log than there is."""


class OldProducerEpoch(SeglogError):
    """A batch of a producer that another one has replaced."""


class OutOfOrderSequence(SeglogError):
    """A batch that does not follow the last one of its producer, and repeats none of the last."""


class NoSuchPartition(TopicNotFound):
    """A topic does not have the partition of this number."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(topic)
        self.args = (f"topic {topic!r} has no partition {partition}",)
