"""Reading a log with awaited calls; see `log`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from seglog.aio.loops import running_loop
from seglog.aio.tail import AsyncTail, in_pieces
from seglog.config import LogConfig
from seglog.log.info import SegmentInfo
from seglog.log.log import Log
from seglog.log.tail import checked_timeout
from seglog.log.view import View
from seglog.record import Record, Share, Timestamp, checked_share
from seglog.segment.reader import OnCorrupt
from seglog.segment.recovery_report import RecoveryReport
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.log.explain.explain import Explanation
    from seglog.log.repair.reports import VerifyReport
    from seglog.log.repair.verify import Progress

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class AsyncReadableLog(Uncopied):
    """The reading calls and the figures of a log.

    Figures are properties, as those of `Log`. A log that this process writes returns them from memory; one opened with
    mode="r" looks at its directory first.
    """

    def __init__(self, log: Log) -> None:
        self.log = log

    # --- figures --------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The log's directory."""
        return self.log.path

    @property
    def config(self) -> LogConfig:
        """The configuration stored with the log."""
        return self.log.config

    @property
    def recovery(self) -> RecoveryReport:
        """What opening had to correct."""
        return self.log.recovery

    @property
    def lowest_offset(self) -> int:
        """The first offset that the log still holds."""
        return self.log.lowest_offset

    @property
    def next_offset(self) -> int:
        """The offset that the next append gets."""
        return self.log.next_offset

    @property
    def durable_offset(self) -> int:
        """The offset before which every record survives power loss."""
        return self.log.durable_offset

    @property
    def epoch(self) -> int:
        """The epoch of the next record; as Log.epoch."""
        return self.log.epoch

    @property
    def size(self) -> int:
        """Bytes of all stores."""
        return self.log.size

    @property
    def segments(self) -> Sequence[SegmentInfo]:
        """Figures of every segment, the active one last."""
        return self.log.segments

    @property
    def closed(self) -> bool:
        """Whether the log is closed."""
        return self.log.closed

    def __len__(self) -> int:
        """Return next_offset - lowest_offset; as len(Log)."""
        return len(self.log)

    def __bool__(self) -> bool:
        """Return True, also for a log without records."""
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.log!r}>"

    def records_from(self, offset: int) -> int:
        """Return the number of records from `offset` to the present end, without reading any; as Log.records_from."""
        return self.log.records_from(offset)

    # --- reading --------------------------------------------------------------------------------------------------

    async def view(self) -> View:
        """Return the present view; as Log.view."""
        return await self._read(self.log.view)

    async def read(self, offset: int) -> Record:
        """Return the record at `offset`; as Log.read."""
        return await self._read(self.log.read, offset)

    async def read_many(self, offsets: Iterable[int], *, skip_compacted: bool = False) -> list[Record]:
        """Return the records at these offsets; as Log.read_many."""
        return await self._read(self.log.read_many, offsets, skip_compacted=skip_compacted)

    async def read_keys(self, keys: Iterable[bytes]) -> dict[bytes, Record]:
        """Return the newest record of each key; as Log.read_keys."""
        return await self._read(self.log.read_keys, keys)

    async def read_cut(self, offset: int, keep: int) -> Record:
        """Return the record at `offset` with only the beginning of a large value; as Log.read_cut."""
        return await self._read(self.log.read_cut, offset, keep)

    async def scan(
        self, start: int | None = None, stop: int | None = None, *, on_corrupt: OnCorrupt | None = None
    ) -> AsyncIterator[Record]:
        """Iterate over a range; as Log.scan. on_corrupt is called on a thread."""
        records = await self._read(self.log.scan, start, stop, on_corrupt=on_corrupt)
        async for record in in_pieces(records):
            yield record

    async def batches(
        self,
        start: int | None = None,
        stop: int | None = None,
        *,
        max_records: int = 65536,
        values: Literal["view", "binary"] = "view",
        on_corrupt: OnCorrupt | None = None,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Iterate over a range in Arrow record batches; as Log.batches. on_corrupt is called on a thread."""
        options: dict[str, Any] = {"max_records": max_records, "values": values, "on_corrupt": on_corrupt}
        batches = await self._read(self.log.batches, start, stop, **options)
        async for batch in in_pieces(batches, 1):
            yield batch

    async def to_arrow(
        self,
        start: int | None = None,
        stop: int | None = None,
        *,
        values: Literal["view", "binary"] = "binary",
        on_corrupt: OnCorrupt | None = None,
    ) -> pa.Table:
        """Return a range as an Arrow table; as Log.to_arrow. on_corrupt is called on a thread."""
        return await self._read(self.log.to_arrow, start, stop, values=values, on_corrupt=on_corrupt)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Export all records as an Arrow stream; blocks while it is read, as it does for `Log`."""
        return self.log.__arrow_c_stream__(requested_schema)

    async def offset_at(self, timestamp: Timestamp, *, force_timestamp: bool = False) -> int | None:
        """Return the first offset at or after a time; as Log.offset_at."""
        return await self._read(self.log.offset_at, timestamp, force_timestamp=force_timestamp)

    async def tail(self, start: int | None = None) -> AsyncTail:
        """Return a position in the log with an awaited `poll`; as Log.tail."""
        return AsyncTail(await self._read(self.log.tail, start))

    async def follow(
        self, start: int | None = None, *, timeout: float | None = None, share: Share | None = None
    ) -> AsyncIterator[Record]:
        """Iterate over the records from `start` (default: the present end) on, and wait for more; as Log.follow."""
        silence, part = checked_timeout(timeout), checked_share(share)
        async for record in (await self.tail(start)).follow(silence, part):
            yield record

    async def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Check every byte of every segment; as Log.verify. progress is called on a thread."""
        return await self._read(self.log.verify, progress)

    async def explain(self, offset: int) -> Explanation:
        """Explain why a record is still in the log, or why it was removed; as Log.explain."""
        return await self._read(self.log.explain, offset)

    async def explain_key(self, key: bytes) -> tuple[Explanation, ...]:
        """Explain every record of a key that is still in the log; as Log.explain_key."""
        return await self._read(self.log.explain_key, key)

    @staticmethod
    async def _read(call: Callable[Parameters, Result], *args: Parameters.args, **options: Parameters.kwargs) -> Result:
        """Make a call that does not change the log, on a thread of the loop."""
        return await running_loop().run_in_thread(partial(call, *args, **options))
