"""The transactions of all ids: begun, staged, ended, and aborted when they take too long. Event loop only.

Each change of an id runs as a task of its own, one at a time: a client that disconnects does not interrupt it. All
files are written on threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from seglog.errors import LogPoisoned, SeglogError, StorageError
from seglog.kafka.faults import BadTimeout, Completing, Undecided, WrongState
from seglog.kafka.producers.registry import new_producer
from seglog.kafka.transactions.ids import Ids
from seglog.kafka.transactions.room import check_offsets, check_open, check_room
from seglog.kafka.transactions.state import NO_SIZE, Size, State, Transactional
from seglog.kafka.transactions.store import Store
from seglog.server.runtime.memory import Claim
from seglog.server.runtime.workers import Workers
from seglog.topic.broker import transactions_of
from seglog.topic.layout.places import Partition
from seglog.topic.transactions.journal import Journal
from seglog.topic.transactions.transactions import DIRECTORY

if TYPE_CHECKING:
    from seglog.server.rights.access import Caller
    from seglog.server.services import Services

LOG = logging.getLogger("seglog.kafka")
LAST_EPOCH = 2**15 - 2
MOST_TIMEOUT_MS = 15 * 60 * 1000
THREADS = 4
RETRY_SECONDS = 1.0
OFFSETS_PART = 8  # which part of the server's memory (1/8) the offsets of open transactions may take
COPIES = 2  # of a batch in memory while it is published: as staged and as stored
Result = TypeVar("Result")


class Transactions:
    """All transactional ids of a broker."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._broker = services.broker
        self._store = Store(lambda create: services.broker._producers_log(create=create))
        limits = services.settings.limits
        self._workers = Workers("transaction", THREADS, limits.connections + limits.waiting)
        self._ids = Ids(self._broker._clock, limits.groups, self._forget)
        self._active: set[Transactional] = set()  # with a journal, now or soon
        self._tasks: set[asyncio.Future[Any]] = set()
        self._stopped = False

    # --- starting and stopping ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Continue what an earlier process has left, also with a full disk. Raises CorruptLog for unreadable ids."""
        if self._services.following is not None:  # it only reads
            return
        self._ids.load(await self._workers.run(lambda: [*self._store.load()]))
        journals, failed = transactions_of(self._broker).take_over()
        for journal in failed:
            one = self._ids.get(journal.about["id"])
            if one is not None and one.transaction == journal.name:
                one.journal, one.state = journal, State.DECIDED
                self._active.add(one)
                self._run(self._retry(one))
        for journal in journals:
            await self._attempt(partial(self._settle, journal))
        for one in self._ids:
            if one.state is State.OPEN and one.journal is None:
                one.epoch += 1
                one.end(State.ABORTED)
                await self._attempt(partial(self._store.write, one))
            elif one.state is State.OPEN:
                self._active.add(one)
                self._set_timer(one)

    async def _attempt(self, call: Callable[[], object]) -> None:
        try:
            await self._workers.run(call)
        except (StorageError, LogPoisoned) as error:
            LOG.warning("the state of transactions could not be stored: %s", error)

    def _settle(self, journal: Journal) -> None:
        """Resume an open transaction, or note the end of one, that an earlier process has left."""
        one = self._ids.get(journal.about["id"])
        is_its = one is not None and one.state is State.OPEN and one.transaction == journal.name
        if one is not None and is_its and (journal.decision is not None or journal.resumable):
            one.resume(journal)
            if journal.decision is None:
                return
            one.end(State.COMMITTED)
            self._store.write(one)
        journal.remove()

    async def stop(self) -> None:
        """Finish what runs; open transactions are left to the next process."""
        self._stopped = True
        for one in self._ids:
            one.stop_timer()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._workers.close()
        for one in self._ids:
            if one.journal is not None:
                one.journal.close()

    # --- ids ------------------------------------------------------------------------------------------------------

    async def init(self, caller: Caller, payer: str, name: str, timeout_ms: int) -> tuple[int, int]:
        """Return the producer's id and its epoch, which fences all earlier producers of this transactional id.

        payer: whose share a new id counts against. Raises NotOwner, BadTimeout, Completing, and ShareFull if there are
        too many ids.
        """
        if not 0 < timeout_ms <= MOST_TIMEOUT_MS:
            raise BadTimeout(f"transaction.timeout.ms is {timeout_ms}; it must be 1 to {MOST_TIMEOUT_MS}")
        one = self._ids.claim(caller, payer, name)

        async def work() -> tuple[int, int]:
            if one.state is State.DECIDED:
                raise Completing(f"the last transaction of {name!r} is being published")
            if one.state is State.OPEN:
                await self._abort(one)
            fresh = one.epoch >= LAST_EPOCH
            one.producer_id, one.epoch = (new_producer(), 0) if fresh else (one.producer_id, one.epoch + 1)
            if fresh:
                one.lines.clear()
            one.aborted.clear()
            for line in one.lines.values():  # offsets must rise for one producer only
                line.floor = 0
            one.state, one.timeout = State.EMPTY, timeout_ms / 1000
            await self._write(one)
            return one.producer_id, one.epoch

        return await self._alone(one, work)

    def find(self, caller: Caller, name: str | None, producer: int, epoch: int) -> Transactional:
        """Return a transactional id for a request of its present producer; see `Ids.find`."""
        return self._ids.find(caller, name, producer, epoch)

    def of(self, caller: Caller) -> list[Transactional]:
        """Return the ids that a caller may use, by name."""
        return self._ids.of(caller)

    def all(self) -> Collection[Transactional]:
        """Return all transactional ids."""
        return [*self._ids]

    def is_pending(self, group: str, place: Partition) -> bool:
        """Whether an open transaction would commit an offset of a group for a partition."""
        return any(one.pending(group, place) for one in self._active)

    def staged_by(self, payer: str) -> int:
        """Return the bytes of offsets that open transactions of a caller have staged."""
        return sum(one.offset_bytes for one in self._active if one.payer == payer)

    # --- an open transaction --------------------------------------------------------------------------------------

    async def join(
        self,
        one: Transactional,
        epoch: int,
        payer: str,
        partitions: Iterable[Partition] = (),
        groups: Iterable[str] = (),
    ) -> None:
        """Add partitions and groups to the transaction, which begins with the first of them.

        Args:
            one: The transactional id.
            epoch: Of its producer.
            payer: Whose share the transaction counts against if it begins.
            partitions: To add.
            groups: To add.

        Raises:
            Fenced: There is a newer producer.
            Completing: The last transaction is not published yet.
            Busy: The share is full.
        """
        places, names = set(partitions), set(groups)

        async def work() -> None:
            one.check_epoch(epoch)
            if one.state is State.DECIDED:
                raise Completing(f"the last transaction of {one.name!r} is being published")
            if one.state is not State.OPEN:
                await self._begin(one, payer)
            if places <= one.partitions and names <= one.groups:
                return
            journal = _journal(one)
            note = {"partitions": sorted(places - one.partitions), "groups": sorted(names - one.groups)}
            with self.room(one, Size(0, 1)):
                await self._workers.run(partial(journal.note, note))
            one.partitions |= places
            one.groups |= names

        await self._alone(one, work)

    async def _begin(self, one: Transactional, payer: str) -> None:
        check_open(self._active, payer)
        one.payer = payer
        self._active.add(one)  # before others are counted
        try:
            await self._open(one)
        except BaseException:
            self._active.discard(one)
            raise
        self._set_timer(one)

    async def _open(self, one: Transactional) -> None:
        journal = await self._workers.run(partial(transactions_of(self._broker).begin, one.about))
        before, one.state = one.state, State.OPEN
        one.transaction = journal.name
        try:
            await self._write(one)
        except BaseException:
            one.state = before
            await self._workers.run(journal.remove)
            raise
        one.journal = journal

    async def within(self, one: Transactional, epoch: int, work: Callable[[Journal], Awaitable[Result]]) -> Result:
        """Do something within the open transaction. Raises WrongState if there is none."""

        async def checked() -> Result:
            one.check_epoch(epoch)
            if one.state is not State.OPEN:
                raise WrongState(f"the transactional id {one.name!r} has no open transaction")
            return await work(_journal(one))

        return await self._alone(one, checked)

    @contextmanager
    def room(self, one: Transactional, more: Size) -> Iterator[None]:
        """Write `more` to a transaction within the context, on a thread: others are counted with it meanwhile.

        Raises LargeTransaction if it is too much for one, Busy if it is for the share of its caller.
        """
        check_room(self._active, one, more, self._services.settings.limits.spool_bytes)
        one.growing = more
        try:
            yield
        finally:
            one.growing = NO_SIZE

    async def run(self, call: Callable[[], Result], first: Callable[[], Awaitable[object]] | None = None) -> Result:
        """Run a call that writes files on a thread."""
        return await self._workers.run(call, first)

    async def stage_offsets(
        self, one: Transactional, epoch: int, group: str, offsets: Mapping[Partition, tuple[int, str]], payer: str
    ) -> None:
        """Stage offsets, with their metadata, that the group commits with the transaction. Raises WrongState.

        payer: who pays for them once they are committed, see `Payer`.
        """

        async def work(journal: Journal) -> None:
            if group not in one.groups:
                raise WrongState(f"the group {group!r} was not added to the transaction of {one.name!r}")
            texts = sum(len(text) for _, text in offsets.values())
            most = self._services.settings.limits.memory_bytes // OFFSETS_PART
            more = journal.growth(group, offsets)
            check_offsets(self._active, one, more, most)
            one.staging = journal.offset_bytes + more  # before others are counted
            stage = partial(transactions_of(self._broker).stage_offsets, journal, group, offsets, payer)
            try:
                with self.room(one, Size(texts, journal.new_places(group, offsets))):
                    await self._workers.run(stage)
            finally:
                one.staging = 0

        await self.within(one, epoch, work)

    # --- its end --------------------------------------------------------------------------------------------------

    async def end(self, one: Transactional, epoch: int, *, commit: bool) -> None:
        """Commit or abort the transaction; a repetition after its end is no error.

        Raises Completing: it is committed and not published yet. Undecided: it could not be committed. WrongState:
        there is none, or it has ended otherwise.
        """

        async def work() -> None:
            one.check_epoch(epoch)
            if one.state is State.OPEN:
                await (self._commit(one) if commit else self._abort(one))
            elif one.state is State.DECIDED and commit:
                raise Completing(f"the transaction of {one.name!r} is being published")
            elif one.state is not (State.COMMITTED if commit else State.ABORTED):
                raise WrongState(f"the last transaction of {one.name!r} is {one.state.value}")

        await self._alone(one, work)

    async def _commit(self, one: Transactional) -> None:
        journal = _journal(one)
        try:
            await self._workers.run(partial(transactions_of(self._broker).decide, journal))
        except LogPoisoned:  # it may be on the disk: only the next opening knows
            one.state = State.DECIDED
            one.stop_timer()
            raise
        except StorageError as error:
            self._services.space.failed(DIRECTORY, error)
            raise Undecided(f"the transaction of {one.name!r} could not be committed: {error}") from error
        self._services.space.worked(DIRECTORY)
        one.state = State.DECIDED
        one.stop_timer()
        try:
            await self._publish(one)
        except SeglogError as error:
            LOG.warning("a committed transaction of %r could not be published: %s", one.name, error)
            self._run(self._retry(one))
            raise Completing(f"the transaction of {one.name!r} is committed, not published: {error}") from error

    async def _publish(self, one: Transactional) -> None:
        journal = _journal(one)
        loop = asyncio.get_running_loop()
        topics: dict[Partition, int] = {}

        def appended(place: Partition, rows: int) -> None:
            topics[place] = topics.get(place, 0) + rows
            loop.call_soon_threadsafe(self._services.waiting.appended, place)

        claim = Claim(self._services.memory, "decoding")
        room = partial(claim.wait, COPIES * max((batch.length for batch in journal.batches), default=0))
        try:
            await self._workers.run(partial(transactions_of(self._broker).publish, journal, appended), room)
        finally:
            claim.close()
        for place, rows in topics.items():
            self._services.waiting.appended(place)  # again: the records are durable
            self._services.metrics.appended(place[0], rows, 0)
        one.end(State.COMMITTED)
        try:
            await self._write(one)
        except SeglogError:
            one.journal, one.state = journal, State.DECIDED
            raise
        self._active.discard(one)
        await self._attempt(journal.remove)

    async def _retry(self, one: Transactional) -> None:
        """Publish a decided transaction as soon as it is possible."""
        while not self._stopped and one.state is State.DECIDED:
            await asyncio.sleep(RETRY_SECONDS)
            async with one.lock:
                with suppress(SeglogError):
                    await self._publish(one)
                    LOG.warning("the committed transaction of %r is published now", one.name)

    async def _abort(self, one: Transactional) -> None:
        journal = _journal(one)
        one.end(State.ABORTED)
        self._active.discard(one)
        try:
            await self._write(one, durable=False)
        except SeglogError as error:  # a restarted server finds it open, without a journal, and aborts it again
            LOG.warning("the end of a transaction of %r could not be stored: %s", one.name, error)
        await self._workers.run(journal.remove)

    def _set_timer(self, one: Transactional) -> None:
        one.stop_timer()
        one.timer = asyncio.get_running_loop().call_later(one.timeout, self._run_out, one, one.epoch)

    def _run_out(self, one: Transactional, epoch: int) -> None:
        """Abort a transaction that takes too long, and fence its producer."""

        async def work() -> None:
            if one.state is State.OPEN and one.epoch == epoch:
                LOG.warning("the transaction of %r took longer than %s s: it is aborted", one.name, one.timeout)
                one.epoch += 1
                await self._abort(one)

        if not self._stopped:
            self._run(self._alone(one, work))

    # --- tasks ----------------------------------------------------------------------------------------------------

    async def _write(self, one: Transactional, *, durable: bool = True) -> None:
        one.used_at = self._broker._clock()
        await self._workers.run(partial(self._store.write, one, durable=durable))

    async def _alone(self, one: Transactional, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do something to an id after what is being done to it; it is completed even if the caller is cancelled."""

        async def locked() -> Result:
            async with one.lock:
                return await work()

        task = asyncio.create_task(locked())
        self._keep(task)
        return await asyncio.shield(task)

    def _forget(self, name: str) -> None:
        self._run(self._workers.run(partial(self._store.forget, name)))

    def _run(self, work: Awaitable[object]) -> None:
        self._keep(asyncio.ensure_future(work))

    def _keep(self, task: asyncio.Future[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieve it: the caller may be gone


def _journal(one: Transactional) -> Journal:
    assert one.journal is not None  # noqa: S101 - an open or decided transaction has one
    return one.journal
