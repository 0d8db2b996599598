"""Add staged segments to a log that is open for writing, once per batch of a query; see `staging`."""

from __future__ import annotations

from collections.abc import Sequence

from seglog.config import MAX_OFFSET
from seglog.log.staging import StagedSegment, after_batch, check_staged, refuse_rebuilt
from seglog.log.writer_state import WriterState, change
from seglog.storage import Storage, must_sync


class Publisher:
    """The publishing of a log."""

    def __init__(self, state: WriterState, storage: Storage) -> None:
        self._state = state
        self._storage = storage

    @change
    def publish(self, staged: Sequence[StagedSegment], query: str, batch: int) -> range | None:
        """Add the segments; None, without any change, if this or a later batch of the query was already added."""
        live = self._state.live
        published = live.catalog.current.published
        if published.get(query, -1) >= batch:
            must_sync(self._storage.sync_directory)  # the process that published it may have died just before its sync
            return None
        self._check_admits(staged)
        return live.publish(staged, after_batch(published, query, batch))

    @change
    def check(self, staged: Sequence[StagedSegment]) -> None:
        """Check that the segments can be added."""
        self._check_admits(staged)
        for one in staged:
            check_staged(self._storage, one)

    def _check_admits(self, staged: Sequence[StagedSegment]) -> None:
        """Raise if the log, whatever the state of the stages, accepts no batch or not as many records."""
        live = self._state.live
        refuse_rebuilt(live.catalog.current, self._storage.path)
        end = live.active.next_offset + sum(one.records for one in staged)
        if end > MAX_OFFSET:
            live.refuse_offset(end - 1)
