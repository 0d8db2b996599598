"""Publish batches of whole segments to a topic's partitions, all or none, and complete interrupted ones.

`transaction` defines the order of writes; this module decides when to proceed. Knows no single record.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from seglog.clock import Clock
from seglog.errors import InvalidArgument, InvalidType
from seglog.forks import Inheritable
from seglog.log.log import Log
from seglog.log.staging import StagedSegment, age_out, checked_batch, checked_name
from seglog.record import checked_all, checked_offset
from seglog.storage import Storage, Subdirectory
from seglog.topic.transaction import Transaction, commit, finish, unfinished


class Publishing(Inheritable):
    """The implementation of `Topic.publish`. Thread-safe."""

    def __init__(self, storage: Storage, logs: Sequence[Log], clock: Clock, *, waiting: bool) -> None:
        """storage: the topic's directory; waiting: whether a `publish` may have been interrupted after its commit."""
        self._storage = storage
        self._logs = logs
        self._clock = clock
        self._waiting = waiting
        self._enter_child()
        self._watch_forks()

    def _enter_child(self) -> None:
        self._guard = threading.RLock()

    def publish(
        self, staged: Mapping[int, Sequence[StagedSegment]], *, query: str, batch: int
    ) -> dict[int, range] | None:
        """Add a batch of staged segments; see Topic.publish."""
        shares = {number: share for number, share in _checked(staged).items() if share}
        transaction = Transaction(query=checked_name(query, "query"), batch=checked_batch(batch), staged=shares)
        self._check_not_inherited("topic")
        with self._guard:
            self.finish_waiting()
            if any(_last_batch(log, query) >= transaction.batch for log in self._logs):
                return None
            self.check_staged(transaction.staged)
            self._waiting = True
            commit(self._storage, transaction)
            added = finish(self._storage, transaction, self._logs)
            self._waiting = False
            return added

    def check_staged(self, staged: Mapping[int, Sequence[StagedSegment]]) -> None:
        """Raise, without any change, if any partition would refuse the batch, even one without segments in it."""
        shares = _checked(staged)
        for number in shares:
            if not 0 <= number < len(self._logs):
                raise InvalidArgument(f"the topic has partitions 0 to {len(self._logs) - 1}, not {number}")
        for number, log in enumerate(self._logs):  # after the commit none may refuse
            log.check_staged(shares.get(number, ()))

    def published(self, query: str) -> int | None:
        """Return the number of the last batch published for a query, None before the first."""
        last = max(_last_batch(log, query) for log in self._logs)
        return None if last < 0 else last

    @property
    def is_waiting(self) -> bool:
        """Whether `finish_waiting` may have something to do."""
        return self._waiting

    def finish_waiting(self) -> None:
        """Complete an interrupted `publish` before anything else happens to the topic."""
        if not self._waiting:
            return
        self._check_not_inherited("topic")
        with self._guard:  # wait for another thread's publish
            for transaction in unfinished(self._storage):
                commit(self._storage, transaction)  # again: the process that died may not have synced it
                finish(self._storage, transaction, self._logs)
            self._waiting = False
            for number in range(len(self._logs)):  # only now: an unfinished batch needs its stages, of any age
                age_out(Subdirectory(self._storage, str(number)), self._clock())


def _checked(staged: object) -> Mapping[int, Sequence[StagedSegment]]:
    """Return the staged segments. Raises InvalidType unless they are partition -> segments."""
    if not isinstance(staged, Mapping):
        raise InvalidType(f"staged must be partition -> segments, not {type(staged).__name__}")
    return {
        checked_offset(number, "partition"): checked_all(share, StagedSegment, f"staged[{number}]")
        for number, share in staged.items()
    }


def _last_batch(log: Log, query: str) -> int:
    last = log.published(query)
    return -1 if last is None else last
