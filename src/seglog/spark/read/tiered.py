"""Logs whose oldest records are in a table: what a log no longer holds is read from the table's files.

`TieredSite` shows each log of another site together with the part that only the table of `seglog table sync` has. The
table's catalog is opened only when a log has deleted records. A table of another history than the log adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from seglog.errors import InvalidArgument
from seglog.log.history import KNOWN
from seglog.replication.lineage import Lineage, common_offset
from seglog.spark.read.batches import BATCH_ROWS
from seglog.spark.read.extents import Extent, LogSnapshot
from seglog.spark.read.log_access import Site
from seglog.table.reading import rows_between
from seglog.table.warehouse import TableFile, files_of, has_newest_only, held_by, opened

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.spark.read.log_access import Held
    from seglog.spark.read.options import Selection
    from seglog.spark.read.plan import OffsetRange
    from seglog.topic.layout.places import Place


@dataclass(frozen=True, slots=True)
class Stored:
    """What a table holds of one partition. files: in order of their offsets."""

    held: Lineage
    files: tuple[TableFile, ...]
    table: Table

    def end_in(self, log: LogSnapshot) -> int | None:
        """Return the offset up to which the table has the records of this log; None if it is of another history."""
        if f"{self.held.log_id:016x}" != log.log:
            return None
        return common_offset(self.held.cuts, log.cuts, min(self.held.end, log.next_offset))

    def before(self, offset: int) -> tuple[Extent, ...]:
        """Return the files as extents, as far as they hold lower offsets."""
        return tuple(_extent(file, min(file.last + 1, offset)) for file in self.files if file.start < offset)

    def rows(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range, in order of offset."""
        for file in self.files:
            if file.last >= start and file.start < stop:
                yield from rows_between(self.table, file, start, stop, BATCH_ROWS)

    def first_at(self, timestamp: int) -> int | None:
        """Return the first offset at or after a timestamp (us); None if all rows are older."""
        for file in self.files:
            if file.max_timestamp >= timestamp:
                for batch in self.rows(file.start, file.last + 1):
                    times = batch.column("timestamp").cast("int64").to_numpy()
                    late = (times >= timestamp).nonzero()[0]
                    if len(late):
                        return int(batch.column("offset")[int(late[0])].as_py())
        return None


def _extent(file: TableFile, stop: int) -> Extent:
    whole = stop == file.last + 1
    dense = file.rows == file.last + 1 - file.start
    records = stop - file.start if dense else file.rows if whole else None
    size = file.bytes
    return Extent(file.start, stop, size, KNOWN, records, dense)


class TieredSite(Site):
    """The logs of a site and, below each, what a table still holds of it."""

    def __init__(self, site: Site, table: str, catalog: dict[str, str] | None) -> None:
        """table: WAREHOUSE/NAME; catalog: properties of a pyiceberg catalog, None for the warehouse's own file."""
        self.where = site.where
        self._site = site
        self._table = table
        self._catalog = catalog
        self._stored: dict[int, Stored] = {}
        self._loaded_for: dict[int, int] = {}

    def places(self, selection: Selection) -> list[Place]:
        """Return the selected partitions."""
        return self._site.places(selection)

    def look_at_all(self, wanted: Sequence[Place]) -> list[LogSnapshot]:
        """Return the present state of every partition, with what the table adds."""
        return [self._extended(one) for one in self._site.look_at_all(wanted)]

    def look_at_those_left(self, wanted: Sequence[Place]) -> list[LogSnapshot]:
        """Return the present state of every existing partition, with what the table adds."""
        return [self._extended(one) for one in self._site.look_at_those_left(wanted)]

    def offset_at(self, snapshot: LogSnapshot, timestamp: int) -> int | None:
        """Return the first offset at or after a timestamp (us), of the table or the log."""
        stored = self._stored.get(snapshot.partition)
        if stored is not None and stored.held.start == snapshot.lowest_offset:
            found = stored.first_at(timestamp)
            if found is not None and found < snapshot.next_offset:
                return found
        return self._site.offset_at(snapshot, timestamp)

    def hold(self, place: Place) -> TieredHeld:
        """Return the present state of a log and of the table, for reading."""
        held = self._site.hold(place)
        stored, lowest = self._extended(held.snapshot), held.snapshot.lowest_offset
        return TieredHeld(held, stored, self._stored.get(place.partition), lowest)

    def keep(self, snapshots: Sequence[LogSnapshot]) -> bool:
        """Keep what the logs have."""
        return self._site.keep([_of_log(one) for one in snapshots])

    def hold_planned(self, part: OffsetRange) -> TieredHeld:
        """Return a planned range, for reading: of the table's files and, as it was planned, of the log."""
        of_log = _of_log_alone(part.extents)
        held = self._site.hold_planned(replace(part, extents=of_log))
        lowest = of_log[0].start if of_log else part.stop
        return TieredHeld(held, self._extended(held.snapshot), self._stored.get(part.partition), lowest)

    def close(self) -> None:
        """Release files and connections."""
        self._site.close()

    def _extended(self, log: LogSnapshot) -> LogSnapshot:
        """Return the snapshot with what only the table has below it."""
        stored = self._usable(log)
        if stored is None or stored.held.start >= log.lowest_offset:
            return log
        extents = (*stored.before(log.lowest_offset), *log.extents)
        return replace(log, lowest_offset=stored.held.start, extents=extents)

    def _usable(self, log: LogSnapshot) -> Stored | None:
        """Return what the table holds if it reaches the log's first record; open the table if it may have moved on."""
        if log.lowest_offset <= log.initial_offset:
            return None
        if not self._reaches(log) and self._loaded_for.get(log.partition) != log.lowest_offset:
            self._stored = _load(self._table, self._catalog)
            self._loaded_for[log.partition] = log.lowest_offset
        return self._stored.get(log.partition) if self._reaches(log) else None

    def _reaches(self, log: LogSnapshot) -> bool:
        stored = self._stored.get(log.partition)
        end = None if stored is None else stored.end_in(log)
        return end is not None and end >= log.lowest_offset


class TieredHeld:
    """A log's state at one moment and the table below it, for reading. bytes_read: of the log, so far."""

    def __init__(self, log: Held, snapshot: LogSnapshot, stored: Stored | None, lowest: int) -> None:
        """lowest: the offset from which the log is read."""
        self.snapshot = snapshot
        self._log = log
        self._stored = stored
        self._lowest = lowest

    @property
    def bytes_read(self) -> int:
        """Bytes of stores, or of a server's answers; not those of the table's files."""
        return self._log.bytes_read

    def batches(self, start: int, stop: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the records of a range as `log_access.Held` specifies: first the table's, then the log's."""
        lowest = self._lowest
        if self._stored is not None and start < lowest:
            for batch in self._stored.rows(start, min(stop, lowest)):
                yield batch, int(batch.column("offset")[-1].as_py()) + 1
        if stop > lowest:
            yield from self._log.batches(max(start, lowest), stop)


def _of_log_alone(extents: tuple[Extent, ...]) -> tuple[Extent, ...]:
    return tuple(extent for extent in extents if extent.file != KNOWN)


def _of_log(snapshot: LogSnapshot) -> LogSnapshot:
    """Return a snapshot without what only the table has."""
    extents = _of_log_alone(snapshot.extents)
    lowest = max(snapshot.lowest_offset, extents[0].start) if extents else snapshot.next_offset
    return replace(snapshot, extents=extents, lowest_offset=lowest)


def _load(table: str, catalog: dict[str, str] | None) -> dict[int, Stored]:
    """Return what the table's present snapshot holds of each partition."""
    with opened(table, catalog) as found:
        if has_newest_only(found):
            raise InvalidArgument(f"option table is {table}, which has the newest records only: name a table of all")
        held = held_by(found)
        files: dict[int, list[TableFile]] = {number: [] for number in held}
        for file in files_of(found):
            files[file.partition].append(file)
        return {
            number: Stored(one, tuple(sorted(files[number], key=lambda file: file.start)), found)
            for number, one in held.items()
        }
