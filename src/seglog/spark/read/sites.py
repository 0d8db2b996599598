"""Choose the site of a read: a file system or a server, with or without a table below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.spark.read.local_logs import LocalSite
from seglog.table import require_pyiceberg

if TYPE_CHECKING:
    from seglog.spark.read.log_access import Site
    from seglog.spark.read.options import ReadOptions


def site_of(options: ReadOptions) -> Site:
    """Return the site that the options name. Opens and sends nothing yet. Raises MissingExtra for a missing extra."""
    site = _site_of_logs(options)
    if options.table is None:
        return site
    require_pyiceberg()
    from seglog.spark.read.tiered import TieredSite  # noqa: PLC0415 - needs pyiceberg, an optional dependency

    return TieredSite(site, options.table, None if options.table_catalog is None else dict(options.table_catalog))


def _site_of_logs(options: ReadOptions) -> Site:
    if options.url is None:
        return LocalSite(options.path, durable=options.durable)
    from seglog.spark.read.server_logs import RemoteSite  # noqa: PLC0415 - needs httpx, an optional dependency

    return RemoteSite(options.url, options.token, durable=options.durable)
