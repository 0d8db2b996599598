"""The files of transactions in a broker's directory: what each holds, which are damaged, what can be restored.

Opening the directory publishes nothing of a damaged file, and renames it to *.damaged. Each frame of a file has a
checksum, so one flipped bit is found by trying, as in `topic_files`. Changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import lru_cache
from typing import NamedTuple

from seglog.errors import SeglogError
from seglog.log.opening import open_log
from seglog.log.repair.reports import Problem
from seglog.storage import File, Storage, Subdirectory
from seglog.topic.idempotency.memory import verify
from seglog.topic.layout import description
from seglog.topic.layout.places import Partition
from seglog.topic.repair.discover import Site
from seglog.topic.repair.reports import TopicTold
from seglog.topic.repair.topic_files import TRIED_BIT_BY_BIT, turned_back
from seglog.topic.transactions.frames import HEAD, Frame, Kind, decode, has_check
from seglog.topic.transactions.journal import SUFFIX, Batch, Journal, frame_bytes, is_decided_after, read_frame
from seglog.topic.transactions.publishing import stored_since
from seglog.topic.transactions.transactions import DAMAGED, DIRECTORY

SHOWN = 8
LONGEST_BYTES = 64 * 1024 * 1024  # of a frame whose length may be what is damaged


class Survey(NamedTuple):
    """What a file of a transaction holds.

    Attributes:
        journal: What can be read of it.
        restored: Position of a damaged frame -> its original bytes.
        unread: Position of the first frame that cannot be read nor restored, or that a crash has cut; None: there is
            none.
        decided_at: Position of the decision, None if it cannot be read.
        is_decided: Whether it was committed.
        is_cut: Whether the frame at `unread` is longer than the rest of the file.
    """

    journal: Journal
    restored: dict[int, bytes]
    unread: int | None
    decided_at: int | None
    is_decided: bool
    is_cut: bool

    @property
    def damaged_at(self) -> int | None:
        """The first position that is not as it was written, None if there is none."""
        found = [*self.restored, *(() if self.unread is None else (self.unread,))]
        return min(found, default=None)

    @property
    def is_damaged(self) -> bool:
        """Whether an opening would not take it as it was written; a transaction that is aborted anyway is not."""
        at = self.damaged_at
        if self.journal.name.endswith(DAMAGED):
            return True
        if at is None or (self.decided_at is not None and at > self.decided_at):
            return False
        return self.is_decided or (self.journal.resumable and not (self.is_cut and not self.restored))

    @property
    def is_restorable(self) -> bool:
        """Whether all of it is known."""
        return self.unread is None and bool(self.journal.about)


def surveys(site: Site) -> Iterator[Survey]:
    """Yield what each file holds. Raises FormatVersionError for one of a newer version, StorageError."""
    storage = site.transactions
    for name in () if storage is None else sorted(storage.names()):
        if storage is not None and name.endswith((SUFFIX, DAMAGED)):
            found = _present(storage, name)
            if found is not None and found.is_damaged:
                found = _present(storage, name)  # again: a process that writes to it may have been in the middle
            if found is not None:
                yield found


def _present(storage: Storage, name: str) -> Survey | None:
    """Return what a file holds, None if a process that publishes has removed it."""
    try:
        return survey(storage, name)
    except SeglogError:
        if storage.identity(name) is None:
            return None
        raise


def survey(storage: Storage, name: str) -> Survey:
    """Return what a file holds. Raises FormatVersionError, StorageError."""
    file = storage.open(name)
    size, at = file.size(), 0
    journal = Journal(storage, name, {}, file, 0, resumable=False, inherited=True)
    restored: dict[int, bytes] = {}
    unread, decided_at, is_cut = None, None, False
    with closing(file):
        while at < size:
            frame = read_frame(file, at) or _restored(file, at, size, restored)
            if frame is not None and journal.takes(frame):
                decided_at = at if frame.kind is Kind.DECISION else decided_at
                at = frame.end
                continue
            if unread is None:
                unread, is_cut = at, frame is None and _end_of(file, at) > size
            at = _end_of(file, at)
            if read_frame(file, at) is None:
                break
        is_decided = journal.decision is not None or (unread is not None and is_decided_after(file, unread))
    return Survey(journal, restored, unread, decided_at, is_decided, is_cut)


def _end_of(file: File, at: int) -> int:
    """Return where a frame ends, as its head has it."""
    head = file.pread(HEAD.size, at)
    return at + HEAD.size + (HEAD.unpack(head)[0] if len(head) == HEAD.size else HEAD.size)


def _restored(file: File, at: int, size: int, restored: dict[int, bytes]) -> Frame | None:
    """Return a damaged frame as it was written, and note its bytes; None if that is unknown."""
    whole = _original(file, at, size)
    if whole is None:
        return None
    restored[at] = whole
    return decode(whole[: HEAD.size], whole[HEAD.size :], at)


def _original(file: File, at: int, size: int) -> bytes | None:
    """Return the bytes of a frame with the one bit restored that its checksum confirms."""
    head = file.pread(HEAD.size, at)
    if len(head) < HEAD.size:
        return None
    for bit in range(8 * HEAD.size):
        tried = bytearray(head)
        tried[bit // 8] ^= 1 << bit % 8
        length = HEAD.unpack(tried)[0]
        if length <= min(size - at - HEAD.size, LONGEST_BYTES):
            payload = file.pread(length, at + HEAD.size)
            if decode(bytes(tried), payload, at) is not None:
                return bytes(tried) + payload
    found = frame_bytes(file, at)
    if found is None or len(found[1]) > TRIED_BIT_BY_BIT:
        return None
    whole = _turned_back(*found)
    return None if whole is None else head + whole


@lru_cache(maxsize=64)  # every following step asks again, and it takes a second
def _turned_back(head: bytes, payload: bytes) -> bytes | None:
    return turned_back(payload, lambda tried: has_check(head, tried))


# --- as text ----------------------------------------------------------------------------------------------------------


def transactions_told(site: Site) -> TopicTold | None:
    """Return what is damaged or unfinished in the files of transactions, None if a place has none."""
    if site.transactions is None:
        return None
    path, problems, unfinished = site.transactions.path, list[Problem](), list[str]()
    try:
        for found in surveys(site):
            if found.is_damaged:
                problems.append(problem_of(site, found))
            elif found.is_decided and not found.journal.is_published:
                unfinished.append(_unfinished(found))
    except SeglogError as error:
        return TopicTold(name=DIRECTORY, path=path, problems=tuple(problems), error=error)
    return TopicTold(name=DIRECTORY, path=path, problems=tuple(problems), unfinished=tuple(unfinished))


def problem_of(site: Site, found: Survey) -> Problem:
    """Return what is wrong with a damaged file, and what the topics lack of it."""
    lost = None if found.journal.is_published else missing(site, found)
    detail = f"{_who(found)} {_state(found)}; {_lost(found, lost)}"
    rows = sum((lost or {}).values())
    return Problem(kind="transaction", path=path_of(found), detail=detail, position=found.damaged_at, records=rows)


def path_of(found: Survey) -> str:
    """Return the path of a file."""
    return f"{found.journal.storage.path}/{found.journal.name}"


def _unfinished(found: Survey) -> str:
    return (
        f"{path_of(found)}: {_who(found)}, with {_counted(_rows(found))}, was committed and interrupted; open the "
        "directory for writing to complete it"
    )


def _rows(found: Survey) -> dict[Partition, int]:
    """Return partition -> how many records can be read."""
    rows = Counter[Partition]()
    for batch in found.journal.batches:
        rows[batch.place] += batch.rows
    return rows


def missing(site: Site, found: Survey) -> dict[Partition, int] | None:
    """Return partition -> how many records the topics lack of those that can be read; None if that is unknown."""
    decision = found.journal.decision
    if decision is None:
        return None
    rows: dict[Partition, int] = {}
    by_place: dict[Partition, list[Batch]] = {}
    for batch in found.journal.batches:
        by_place.setdefault(batch.place, []).append(batch)
    for place, batches in by_place.items():
        topic = site.topics.get(place[0])
        if topic is None or place not in decision.starts or _id_of(topic) != batches[0].topic_id:
            continue  # deleted since, or damaged itself
        try:
            lacking = _lacking(topic, place, batches, decision.starts[place])
        except SeglogError:
            return None
        rows |= {place: lacking} if lacking else {}
    return rows


def _id_of(topic: Storage) -> str | None:
    with suppress(SeglogError):
        return description.read(topic).id
    return None


def _lacking(topic: Storage, place: Partition, batches: list[Batch], start: tuple[int, int]) -> int:
    """Return how many records of these batches a partition does not have completely."""
    with open_log(Subdirectory(topic, str(place[1])), mode="r") as log:
        known = stored_since(log, place[1], start)
        shares = [(batch, known.get(batch.once)) for batch in batches]
        return sum(batch.rows for batch, share in shares if share is None or not verify(log, share).verified)


def _who(found: Survey) -> str:
    name = found.journal.about.get("id")
    return "a transaction of an unknown producer" if name is None else f"the transaction of {name!r}"


def _state(found: Survey) -> str:
    what = "was committed" if found.is_decided else "was open, or committed"
    where = "" if found.damaged_at is None else f", and its file is damaged at byte {found.damaged_at}"
    aside = " (it was set aside by an opening)" if found.journal.name.endswith(DAMAGED) else ""
    return f"{what}{where}{aside}"


def _lost(found: Survey, lost: dict[Partition, int] | None) -> str:
    """Describe what the topics and groups lack."""
    if found.journal.is_published:
        return "its records and offsets were published before, so nothing is lost"
    rows = _rows(found)
    if not rows:
        parts = ["none of its records can be read"]
    elif lost is None:
        parts = [f"the topics may lack {_counted(rows)} of it"]
    else:
        parts = [f"the topics lack {_counted(lost)} of it" if lost else "the topics have all of its readable records"]
    if found.journal.offsets:
        parts.append(f"the offsets of {', '.join(map(repr, found.journal.offsets))} may not be committed")
    if found.unread is not None and rows:
        parts.append("a part of it cannot be read")
    return "; ".join(parts)


def _counted(rows: dict[Partition, int]) -> str:
    shown = [f"{count} of {topic}/{number}" for (topic, number), count in sorted(rows.items())[:SHOWN]]
    more = [f"{len(rows) - SHOWN} more partitions"] if len(rows) > SHOWN else []
    return f"{sum(rows.values())} records ({', '.join(shown + more)})" if rows else "no records"
