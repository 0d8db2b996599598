"""Why a request is refused, beyond the errors that the rest of seglog has."""

from __future__ import annotations

from seglog.errors import Forbidden, SeglogError, TopicNotFound


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


class Fenced(OldProducerEpoch):
    """A request of a transactional producer that another one has replaced, or whose transaction took too long."""


class WrongState(SeglogError):
    """A request that the state of the transaction does not allow."""


class UnknownProducer(SeglogError):
    """A transactional id that is not known, or has another producer."""


class BadTimeout(SeglogError):
    """A timeout of transactions that is out of range."""


class Completing(SeglogError):
    """The transaction before is decided, and not published yet: ask again."""


class NotOwner(Forbidden):
    """A transactional id that belongs to another token."""


class Undecided(SeglogError):
    """The transaction could not be committed, and is open still: ask again."""


class LargeTransaction(SeglogError):
    """A transaction with more bytes than one may have."""


class FewCopies(SeglogError):
    """Fewer copies follow a partition than its topic wants records to be in."""


class NotCopied(SeglogError):
    """Records that were appended, and that too few copies have so far."""
