"""Let the retention of logs wait for their tables: each table has a hold in each of its logs."""

from __future__ import annotations

import os

from xxhash import xxh64_hexdigest

from seglog.archive import holding
from seglog.log.holds import TABLE, Hold
from seglog.log.opening import storage_at
from seglog.storage import Storage
from seglog.table.warehouse import location_of


def hold_of(location: str) -> Hold:
    """Return the hold of the table at a location."""
    return Hold(TABLE + xxh64_hexdigest(location.encode()))


def release(source: str | os.PathLike[str] | Storage, table: str | os.PathLike[str] | None = None) -> int:
    """End that the retention of logs waits for tables; return how many holds were removed.

    A log with `Retention(after="table")` then keeps everything, until it is synchronized again or altered.

    Args:
        source: Path or Storage of a log, a topic, or a directory of topics.
        table: The location of one table, WAREHOUSE/NAME, which need not exist any more. None: all tables.
    """
    prefix = TABLE if table is None else hold_of(location_of(os.fspath(table))).name
    return holding.release(storage_at(source), prefix)
