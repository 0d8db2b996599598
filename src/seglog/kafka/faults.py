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


class Unanswered(SeglogError):
    """A batch with acks=0 that was refused: there is no answer that could say so, and the connection ends."""


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


class UnknownTopicId(TopicNotFound):
    """No topic has this id: it was deleted, and perhaps created again."""

    def __init__(self, uuid: str | None) -> None:
        super().__init__(uuid or "")
        self.args = (f"no topic has the id {uuid}",)


class FencedMember(SeglogError):
    """A heartbeat of a member with an epoch that is not its last one."""


class FencedInstance(SeglogError):
    """A request of a static member that another one has replaced."""


class UnreleasedInstance(SeglogError):
    """A static member joins while another one of its name is still a member."""


class UnsupportedAssignor(SeglogError):
    """A way to assign partitions that this server does not have."""


class BadRegex(SeglogError):
    """A regular expression that is not valid."""


class GroupFull(SeglogError):
    """A group with the most members, or no memory for more."""


class NotCopied(SeglogError):
    """Records that were appended, and that too few copies have so far."""
