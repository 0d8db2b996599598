"""The records of a topic as an Apache Iceberg table, which other engines read without seglog.

    WAREHOUSE/catalog.db          the catalog: which metadata file of each table is current (SQLite)
    WAREHOUSE/<table>/data/       Parquet files; each holds a range of offsets of one partition
    WAREHOUSE/<table>/metadata/   snapshots: lists of files; each names up to which offset it holds every partition

`schema` and `ranges` are pure: the columns, and which offsets come next. `files` and `durable_files` write; `warehouse`
opens tables and commits to them; `rounds` and `latest` make
one round on a table; `merging` replaces small files; `synchronize` finds the logs and their tables; `holding` lets
retention wait for a table; `value_schemas` reads single values as a round would, for a console.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from seglog.extras import require

if TYPE_CHECKING:
    from seglog.table.holding import release
    from seglog.table.rounds import TableReport
    from seglog.table.synchronize import TableSync, sync

__all__ = ["TableReport", "TableSync", "release", "sync"]


def require_pyiceberg() -> None:
    """Raise MissingExtra unless what the extra `table` brings is installed."""
    require("tables need", "pyiceberg", "sqlalchemy", "pyarrow", extra="table")


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_pyiceberg()
    module = {"TableReport": "rounds", "release": "holding"}.get(name, "synchronize")
    return getattr(import_module(f"seglog.table.{module}"), name)  # pyiceberg loads when first used
