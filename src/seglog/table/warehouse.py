"""Open tables of a warehouse, say what a table holds, and commit changes to it.

A commit is one snapshot. The catalog replaces the table's metadata file only if it is the one that the commit read, so
two programs never both commit on the same state.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table, Transaction
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import IntegerType, LongType, TimestamptzType

from seglog.errors import CorruptLog, InvalidArgument, LogNotFound, TopicNotFound
from seglog.table import durable_files, files, ranges, snapshots
from seglog.table.faults import as_ours
from seglog.table.ranges import Held
from seglog.table.schema import OFFSET_ID, PARTITION_ID, SCHEMA, SPEC, TIMESTAMP_ID

NAMESPACE = "seglog"
CATALOG_FILE = "catalog.db"
HELD = "seglog.held"
SOURCE = "seglog.source"
ROWS = "seglog.rows"
Rows = Literal["all", "newest"]
OWN_TAG = "seglog-"
_PROPERTIES = {
    "format-version": "2",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


logging.getLogger("pyiceberg.io.pyarrow").addFilter(
    # values and headers have no statistics on purpose: no query prunes by them
    lambda record: not record.getMessage().startswith("PyArrow statistics missing for column")
)


@dataclass(frozen=True, slots=True)
class TableFile:
    """A Parquet file of a table.

    start, last: its lowest and greatest offset; rows: with those that another program has marked as deleted; task: how
    pyiceberg reads it.
    """

    location: str
    partition: int
    start: int
    last: int
    rows: int
    task: FileScanTask

    @property
    def entry(self) -> DataFile:
        """What the snapshot knows of it."""
        return self.task.file

    @property
    def has_deletes(self) -> bool:
        """Whether another program has marked rows of it as deleted, in other files."""
        return bool(self.task.delete_files)

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.entry.file_size_in_bytes

    @property
    def min_timestamp(self) -> int:
        """The time of its earliest row, us."""
        return int(from_bytes(TimestamptzType(), self.entry.lower_bounds[TIMESTAMP_ID]))

    @property
    def max_timestamp(self) -> int:
        """The time of its latest row, us."""
        return int(from_bytes(TimestamptzType(), self.entry.upper_bounds[TIMESTAMP_ID]))

    @property
    def is_ours(self) -> bool:
        """Whether a round has written it, as its name shows."""
        return bool(files.OWN_NAME.fullmatch(self.location.rpartition("/")[2]))


class Warehouse:
    """A directory of tables with its catalog, or a catalog that the user names."""

    def __init__(
        self, place: str | os.PathLike[str], catalog: dict[str, str] | None = None, *, create: bool = False
    ) -> None:
        """Open a warehouse. Raises LogNotFound if it does not exist and is not to be created.

        Args:
            place: Path of the directory, or a URL of an object store.
            catalog: Properties of a pyiceberg catalog, such as {"type": "rest", "uri": ...}. None: the file catalog.db
                in the directory.
            create: Create the directory and its catalog if they are missing.
        """
        self.location = location_of(os.fspath(place))
        with as_ours(self.location):
            self._catalog = self._own(create) if catalog is None else self._given(catalog)

    def _given(self, properties: dict[str, str]) -> Catalog:
        try:
            return load_catalog("seglog", **_defaults(properties, self.location))
        except ValueError as error:  # its text may contain a property, such as a password
            raise InvalidArgument(
                "the properties of the catalog cannot be used; give, say, type=rest and uri=http://..."
            ) from error

    def _own(self, create: bool) -> Catalog:
        directory = local_path(self.location)
        if directory is None:
            raise InvalidArgument(
                f"{self.location} needs a catalog: only a directory can hold the catalog's file; give the properties "
                "of a catalog, such as type=rest and uri=..."
            )
        if not create and not (directory / CATALOG_FILE).exists():
            raise LogNotFound(
                f"there is no warehouse at {directory}: it has no {CATALOG_FILE}; `seglog table sync` creates one"
            )
        directory.mkdir(parents=True, exist_ok=True)
        properties = {"uri": f"sqlite:///{quote(str(directory / CATALOG_FILE))}", "warehouse": self.location}
        return SqlCatalog("seglog", **_defaults(properties, self.location))

    def names(self) -> list[str]:
        """Return the names of the tables."""
        with as_ours(self.location):
            if not self._catalog.namespace_exists(NAMESPACE):
                return []
            return sorted(name[-1] for name in self._catalog.list_tables(NAMESPACE))

    def table(self, name: str) -> Table:
        """Open a table. Raises TopicNotFound if it does not exist."""
        try:
            with as_ours(name):
                return self._catalog.load_table((NAMESPACE, name))
        except NoSuchTableError:
            raise TopicNotFound(f"{self.location}/{name}") from None

    def table_for(self, name: str, source: str, rows: Rows) -> Table:
        """Open the table of a topic; create it if it does not exist.

        source: the topic's path; rows: which of its records the table has: all, or the newest of each key.
        """
        table = self._known_or_new(name, source, rows)
        there = table.properties.get(ROWS, "all")
        if there != rows:
            raise InvalidArgument(f"the table {name} has {there} records of its log, not {rows}: choose another name")
        return table

    def _known_or_new(self, name: str, source: str, rows: Rows) -> Table:
        with suppress(TopicNotFound):  # an attempt to create it would leave a metadata file
            return self.table(name)
        self._catalog.create_namespace_if_not_exists(NAMESPACE)
        try:
            return self._catalog.create_table(
                (NAMESPACE, name),
                SCHEMA,
                location=f"{self.location}/{name}",
                partition_spec=SPEC,
                properties={**_PROPERTIES, SOURCE: source, ROWS: rows},
            )
        except TableAlreadyExistsError:
            return self.table(name)

    def close(self) -> None:
        """Close the catalog."""
        if isinstance(self._catalog, SqlCatalog):
            self._catalog.engine.dispose()


@contextmanager
def opened(location: str | os.PathLike[str], catalog: dict[str, str] | None = None) -> Iterator[Table]:
    """Open a table at WAREHOUSE/NAME, with its catalog, which is closed with the block. Errors are ours in the block.

    Raises LogNotFound or TopicNotFound if it does not exist.
    """
    place, name = split_location(location)
    with as_ours(os.fspath(location)), closing(Warehouse(place, catalog)) as warehouse:
        yield warehouse.table(name)


def _defaults(properties: dict[str, str], location: str) -> dict[str, str]:
    return {"py-io-impl": durable_files.NAME, "warehouse": location, **properties}


def location_of(place: str) -> str:
    """Return the location of a warehouse. Locations are not encoded: pyiceberg takes what follows file:// as the path.

    Raises InvalidArgument for a path that it would cut off, and for a URL with credentials.
    """
    if "://" in place:
        scheme, _, rest = place.partition("://")
        _, sign, bare = rest.partition("/")[0].rpartition("@")
        if sign:
            raise InvalidArgument(
                f"{scheme}://{bare}/... has credentials, and tables store locations: give them as properties of the "
                "catalog, or in the environment"
            )
        return place.rstrip("/")
    if not place or any(sign in place for sign in "?#"):
        raise InvalidArgument(f"{place!r} cannot be a warehouse: name a directory, without '?' and '#'")
    return f"file://{Path(place).absolute()}"


def local_path(location: str) -> Path | None:
    """Return the path of a location in the local file system; None if it is elsewhere."""
    path = location.removeprefix("file:")
    return None if path == location else Path("/" + path.lstrip("/"))


def held_by(table: Table) -> Held:
    """Return what the present snapshot holds of each partition. A snapshot of another program keeps its parent's."""
    snapshots = list(_back_to_held(table))
    if not snapshots:
        return {}
    last = snapshots[-1]
    text = _held_text(last)
    if text is None and last.parent_snapshot_id is not None:
        raise CorruptLog(
            f"{name_of(table)}: the snapshots that name its offsets have expired; keep the last snapshot that "
            "`seglog table sync` has made"
        )
    return {} if text is None else ranges.from_text(text, name_of(table))


def _back_to_held(table: Table) -> Iterator[Snapshot]:
    """Yield the snapshots from the present one back to the first that names offsets, or to the oldest known one."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None or _held_text(snapshot) is not None else table.snapshot_by_id(parent)


def _held_text(snapshot: Snapshot) -> str | None:
    return None if snapshot.summary is None else snapshot.summary.additional_properties.get(HELD)


def name_of(table: Table) -> str:
    """Return how errors name a table: its location."""
    path = local_path(table.location())
    return str(path) if path else table.location()


def files_of(table: Table, partition: int | None = None) -> Iterator[TableFile]:
    """Yield the files of the present snapshot, of one partition or of all.

    Raises InvalidArgument if another program has marked rows as deleted in a way that pyiceberg cannot read.
    """
    scan = table.scan() if partition is None else table.scan(row_filter=f"partition = {partition}")
    try:
        tasks = list(scan.plan_files())
    except (ValueError, NotImplementedError) as error:
        raise InvalidArgument(f"{name_of(table)}: {error}. Let the other program rewrite the data files") from error
    for task in tasks:
        entry = task.file
        yield TableFile(
            entry.file_path,
            int(from_bytes(IntegerType(), entry.lower_bounds[PARTITION_ID])),
            int(from_bytes(LongType(), entry.lower_bounds[OFFSET_ID])),
            int(from_bytes(LongType(), entry.upper_bounds[OFFSET_ID])),
            entry.record_count,
            task,
        )


def directly_readable(table: Table) -> list[TableFile]:
    """Return the files of the present snapshot for a reader that knows Parquet only.

    Raises InvalidArgument if another program has marked rows as deleted in files of their own (merge-on-read).
    """
    found = list(files_of(table))
    marked = next((file for file in found if file.has_deletes), None)
    if marked is not None:
        raise InvalidArgument(
            f"another program has deleted rows of {marked.location} and noted it in other files, which no "
            "reader of Parquet sees; let it rewrite the data files (rewrite_data_files), or read through Iceberg"
        )
    return found


def replace_files(table: Table, added: Iterable[str], removed: Iterable[TableFile]) -> None:
    """Commit one snapshot with the same rows in other files. Arguments and errors as in `commit`."""
    properties = {HELD: ranges.to_text(held_by(table))}
    with table.transaction() as transaction:
        _change_files(table, transaction, snapshots.rewritten(transaction, properties), added, removed)


def commit(table: Table, held: Held, added: Iterable[str], removed: Iterable[TableFile] = ()) -> None:
    """Commit one snapshot: without the removed files, with the added ones.

    Args:
        table: Refreshed by this call.
        held: What the table then holds.
        added: Locations of complete files.
        removed: Files of the present snapshot.

    Raises:
        CommitFailedException: (pyiceberg) If another program committed meanwhile; nothing is changed.
    """
    gone = list(removed)
    properties = {HELD: ranges.to_text(held)}
    with table.transaction() as transaction:
        update = snapshots.changed_rows(transaction, properties) if gone else snapshots.added(transaction, properties)
        _change_files(table, transaction, update, added, gone)


def _change_files(
    table: Table,
    transaction: Transaction,
    update: snapshots.Update,
    added: Iterable[str],
    removed: Iterable[TableFile],
) -> None:
    with update as snapshot:
        for file in removed:
            snapshot.delete_data_file(file.entry)
        for location in added:
            snapshot.append_data_file(parquet_file_to_data_file(table.io, transaction.table_metadata, location))


def expire(table: Table, keep: timedelta) -> None:
    """Forget snapshots that are older, with their files. The present one stays, and the one that names its offsets.

    Those with a tag or branch stay too, until the reference has reached its own age.

    Many at a time, once the oldest is a tenth older still: to know which files remain, all snapshots must be read.
    """
    now = datetime.now().timestamp() * 1000
    kept = {one.snapshot_id for one in _back_to_held(table)} | _held_snapshots(table, now)
    ages = {one.snapshot_id: now - one.timestamp_ms for one in table.snapshots() if one.snapshot_id not in kept}
    limit = keep.total_seconds() * 1000
    if max(ages.values(), default=-1) < limit * 1.1:
        return
    old = {number for number, age in ages.items() if age >= limit}
    before = files_of_snapshots(table, [one for one in table.snapshots() if one.snapshot_id in old])
    table.maintenance.expire_snapshots().by_ids(sorted(old)).commit()
    for location in before - files_of_snapshots(table, table.snapshots()):
        with suppress(OSError):  # it takes space, and nothing refers to it
            table.io.delete(location)


def hold_snapshot(table: Table, name: str, age: timedelta) -> None:
    """Tag the present snapshot, so that its files stay until it has this age. A tag of this name is replaced."""
    snapshot = table.current_snapshot()
    if snapshot is not None:
        tag = OWN_TAG + name
        table.manage_snapshots().create_tag(snapshot.snapshot_id, tag, round(age.total_seconds() * 1000)).commit()


def _held_snapshots(table: Table, now: float) -> set[int]:
    """Return the snapshots that tags and branches keep, also of other programs; remove our tags that are too old."""
    kept = set()
    for name, one in table.refs().items():
        snapshot = table.snapshot_by_id(one.snapshot_id)
        if name.startswith(OWN_TAG) and snapshot and now - snapshot.timestamp_ms > (one.max_ref_age_ms or 0):
            table.manage_snapshots().remove_tag(name).commit()
        else:
            kept.add(one.snapshot_id)
    return kept


def files_of_snapshots(table: Table, snapshots: Iterable[Snapshot]) -> set[str]:
    """Return the locations of all files that snapshots refer to: lists, manifests, data."""
    lists = {one.manifest_list: one for one in snapshots}
    manifests = {one.manifest_path: one for snapshot in lists.values() for one in snapshot.manifests(table.io)}
    data = {entry.data_file.file_path for one in manifests.values() for entry in one.fetch_manifest_entry(table.io)}
    return {*lists, *manifests, *data}


def source_of(table: Table) -> str:
    """Return the path of the log or topic of a table. CorruptLog if the table names none."""
    source = table.properties.get(SOURCE)
    if not source:
        raise CorruptLog(f"{name_of(table)} names no log: `seglog table sync` has not made it")
    return source


def has_newest_only(table: Table) -> bool:
    """Return whether a table has the newest record of each key, not every record."""
    return bool(table.properties.get(ROWS) == "newest")


def split_location(location: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the warehouse and the name of a table at WAREHOUSE/NAME."""
    warehouse, _, name = os.fspath(location).rstrip("/").rpartition("/")
    if not name:
        raise InvalidArgument(f"{location!r} is not a table; write WAREHOUSE/NAME")
    return warehouse or ("/" if os.fspath(location).startswith("/") else "."), name
