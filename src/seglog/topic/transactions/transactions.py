"""The transactions of a broker: begun, decided and published here; those of an earlier process are completed first.

A broker that opens for writing publishes every decided transaction before anybody can append. What it cannot publish
(a full disk) stays decided: `publish` tries again, and the next opening does. A damaged file, and one that a former
leader has decided, is renamed to *.damaged or *.outdated, and is not published.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from seglog.errors import CorruptLog, LogPoisoned, SeglogError, StorageError
from seglog.topic.groups.charges import NOBODY
from seglog.topic.transactions.journal import SUFFIX, Batch, Journal
from seglog.topic.transactions.publishing import Appended, decision_of, publish, term_of

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.clock import Clock
    from seglog.storage import Storage
    from seglog.topic.groups import Groups
    from seglog.topic.layout.places import Partition
    from seglog.topic.topic import Topic

DIRECTORY = ".transactions"
DAMAGED, OUTDATED = ".damaged", ".outdated"
LONGEST_MARK = 300


class Transactions:
    """All of a broker. Thread-safe, for one thread per transaction.

    Attributes:
        left: Undecided ones of an earlier process: their beginner resumes or aborts them.
        published: Those of an earlier process that are complete: their beginner removes them.
        failed: Decided ones that could not be published, by the names of their files, with the error.
    """

    def __init__(self, storage: Storage, open_topic: Callable[[str], Topic], groups: Groups, clock: Clock) -> None:
        """storage: the directory of journals, which may not exist yet."""
        self._storage = storage
        self._open_topic = open_topic
        self._groups = groups
        self._clock = clock
        self._guard = threading.Lock()
        self._decided_at = 0
        self.left: list[Journal] = []
        self.published: list[Journal] = []
        self.failed: dict[str, tuple[Journal, SeglogError]] = {}

    def load(self) -> tuple[str, ...]:
        """Read what an earlier process left, and publish what it had decided; return that as text."""
        found = sorted(name for name in self._storage.names() if name.endswith(SUFFIX))
        journals: list[Journal] = []
        texts: list[str] = []
        for name in found:
            try:
                journal = Journal.load(self._storage, name)
            except CorruptLog as error:
                texts.append(self._set_aside(name, DAMAGED, str(error)))
                continue
            if journal is None:
                self._storage.unlink(name)
            else:
                journals.append(journal)
        self.left = [journal for journal in journals if journal.decision is None]
        self.published = [journal for journal in journals if journal.is_published]
        decided = sorted((one for one in journals if one.decision and not one.is_published), key=_decided_at)
        self._decided_at = max(map(_decided_at, decided), default=0)
        return (*texts, *(self._complete(journal) for journal in decided))

    def _set_aside(self, name: str, ending: str, why: str) -> str:
        """Rename a file that cannot be used, and return that as text."""
        kept = name.removesuffix(SUFFIX) + ending
        self._storage.rename(name, kept)
        return f"{why}. Nothing more of it is published; it was kept as {DIRECTORY}/{kept}"

    def _complete(self, journal: Journal) -> str:
        what = f"transaction {journal.name.removesuffix(SUFFIX)}: it was decided, and "
        assert journal.decision is not None  # noqa: S101 - the caller has selected decided ones
        if journal.decision.term != (term := term_of(self._groups.log)):
            journal.close()
            why = f"{what}another leader was promoted since (term {journal.decision.term}, now {term})"
            return self._set_aside(journal.name, OUTDATED, why)
        try:
            journal.sync()  # again: the process that died may not have done so
            publish(journal, self._open_topic, self._groups)
            journal.note_published()
        except SeglogError as error:
            self.failed[journal.name] = (journal, error)
            return f"{what}cannot be published: {error}"
        self.published.append(journal)
        return f"{what}its records and offsets were published"

    def take_over(self) -> tuple[list[Journal], list[Journal]]:
        """Return the transactions of an earlier process to their beginner: settled ones, and those in `failed`."""
        taken, self.left, self.published = [*self.left, *self.published], [], []
        return taken, [journal for journal, _ in self.failed.values()]

    def begin(self, about: dict[str, Any]) -> Journal:
        """Begin a transaction. about: of whom it is, as JSON values. Raises StorageError."""
        return Journal.create(self._storage, about)

    def stage(self, journal: Journal, batch: Batch, records: pa.RecordBatch) -> None:
        """Stage records; see `Journal.stage`. Raises the errors of `Topic.append_batch` for what it would refuse.

        Timestamps are taken as they are: who stages records knows their unit.
        """
        marked = self._marked(records)
        self._open_topic(batch.topic).partition(batch.partition)._check_batch(marked)
        journal.stage(batch, records)

    def stage_offsets(
        self, journal: Journal, group: str, offsets: Mapping[Partition, tuple[int, str]], payer: str = NOBODY
    ) -> None:
        """Stage the commit of a group, for the logs as they are now; see `Journal.stage_offsets`."""
        logs = self._groups.logs_of({place: offset for place, (offset, _) in offsets.items()})
        journal.stage_offsets(group, offsets, logs, payer)

    @staticmethod
    def _marked(records: pa.RecordBatch) -> pa.Table:
        """Return the records as long as they are once their first one carries the idempotency key."""
        import pyarrow as pa  # noqa: PLC0415 - imported with the first transaction

        from seglog.topic.idempotency.batches import marked  # noqa: PLC0415 - as above

        return marked(pa.Table.from_batches([records]), b" " * LONGEST_MARK)

    def decide(self, journal: Journal) -> None:
        """Commit a transaction; see `Journal.decide`. Raises KeyRequired, as `decision_of`: it is undecided."""
        with self._guard:
            self._decided_at = max(self._clock(), self._decided_at + 1)
            at = self._decided_at
        try:
            journal.decide(decision_of(journal, self._open_topic, self._groups.log, at))
        except LogPoisoned as error:
            with self._guard:
                self.failed[journal.name] = (journal, error)
            raise

    def publish(self, journal: Journal, appended: Appended = lambda _place, _rows: None) -> None:
        """Publish a decided transaction; durable when it returns. The caller removes the journal.

        Raises the errors of appending: it stays in `failed` until a repetition succeeds.
        """
        try:
            publish(journal, self._open_topic, self._groups, appended)
        except (SeglogError, OSError, MemoryError) as error:
            known = error if isinstance(error, SeglogError) else StorageError(errno.EIO, str(error), journal.name)
            with self._guard:
                self.failed[journal.name] = (journal, known)
            raise known from error
        with self._guard:
            self.failed.pop(journal.name, None)

    def close(self) -> None:
        """Leave everything to the next process."""
        for journal in (*self.left, *self.published, *(journal for journal, _ in self.failed.values())):
            journal.close()


def _decided_at(journal: Journal) -> int:
    assert journal.decision is not None  # noqa: S101 - the caller has selected decided ones
    return journal.decision.at
