"""The ASGI app: assembles the parts of a server and its routes. The server's composition root."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.routing import Route

from seglog.errors import TopicNotFound
from seglog.server.api.operations import Endpoint, Operation
from seglog.server.api.paths import Paths
from seglog.server.problems import PROTECTING, HttpProblem, problem
from seglog.server.rights.access import Access
from seglog.server.rights.guard import Guard
from seglog.server.rights.terms import Terms
from seglog.server.routes import OPERATIONS
from seglog.server.runtime.appends import Appends
from seglog.server.runtime.disk_space import Space
from seglog.server.runtime.fencing import fence_all
from seglog.server.runtime.kept_groups import KeptGroups
from seglog.server.runtime.memory import Memory
from seglog.server.runtime.metrics import Metrics
from seglog.server.runtime.mirroring import Mirroring
from seglog.server.runtime.snapshots import Snapshots
from seglog.server.runtime.spool import Spool
from seglog.server.runtime.waiting import Waiting
from seglog.server.runtime.workers import Workers
from seglog.server.services import DEFAULT_TOPIC, Services
from seglog.server.settings import Settings
from seglog.server.state_metrics import StateMetrics
from seglog.storage import Subdirectory
from seglog.table import require_pyiceberg
from seglog.topic.broker import Broker
from seglog.topic.cleaning import Cleaner
from seglog.topic.layout.root import OFFSETS
from seglog.topic.repair.discover import logs_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from seglog.archive.background import BackgroundArchiver
    from seglog.server.runtime.following import Following
    from seglog.table.background import BackgroundTables
    from seglog.table.value_schemas import ValueSchemas

READ_THREADS = 2  # they compute and wait for each other; with 8, /ready is four times as slow under 200 tails
ARCHIVE_READ_THREADS = 8  # they wait for an object store
SLOW_THREADS = 2
GROUPS_PART = 4
"""Which part of the server's memory (1/4) groups may take that it keeps, beside the budget that requests share."""


def services_of(
    broker: Broker, settings: Settings, say: Callable[[str], None] = print, following: Following | None = None
) -> Services:
    """Assemble a server's parts around a broker, which they own from here on; create the default topic.

    following: what keeps the topics up to date, if the broker only reads them. say: receives problems of the archive.
    Raises the errors of `Archiver` if there is to be one.
    """
    limits = settings.limits
    if following is None:
        try:
            broker.topic(DEFAULT_TOPIC)
        except TopicNotFound:
            broker.create_topic(DEFAULT_TOPIC)
    broker.logs()  # open every topic now, so that no request waits for it
    waiting, memory = Waiting(), Memory(limits.memory_bytes)
    snapshots = Snapshots(limits.snapshot_seconds, limits.snapshot_bytes)
    read_threads = ARCHIVE_READ_THREADS if settings.archive_reads else READ_THREADS
    care = Workers("care", SLOW_THREADS, limits.calls)
    services = Services(
        settings=settings,
        broker=broker,
        cleaner=Cleaner(broker.logs if following is None else {}),  # a mirror cleans its copies itself
        access=Access.of_file(settings.tokens),
        guard=Guard(settings),
        spool=Spool(settings.spool or Path(tempfile.gettempdir()), limits, memory),
        appends=Appends(limits, waiting),
        mirroring=Mirroring(),
        terms=Terms(broker, care),
        memory=memory,
        waiting=waiting,
        reads=Workers("read", read_threads, limits.calls + limits.tails),
        scans=Workers("scan", SLOW_THREADS, limits.calls),
        groups=Workers("group", SLOW_THREADS, limits.connections),
        care=care,
        metrics=Metrics(),
        space=Space(broker.free_bytes, snapshots.drop_all),
        snapshots=snapshots,
        kept_groups=KeptGroups(limits.memory_bytes // GROUPS_PART),
        following=following,
    )
    if settings.archive is not None:
        services.archiving = _archiving(broker, settings, say, leads=following is None)
    if settings.table is not None:
        services.tables = _tables(broker, settings, say)
        services.value_schemas = _value_schemas(settings.table, settings.table_catalog)
    services.metrics.watch(StateMetrics(services), broker.topics)
    if following is None:
        services.appends.syncing.watch((OFFSETS, 0), broker.groups.log)
    return services


def _archiving(broker: Broker, settings: Settings, say: Callable[[str], None], *, leads: bool) -> BackgroundArchiver:
    from seglog.archive.archiver import Archiver  # noqa: PLC0415 - only servers with an archive need it

    assert settings.archive is not None  # noqa: S101 - the caller has checked it
    fenced = partial(fence_all, broker) if leads else None
    archiver = Archiver(broker._storage, settings.archive)
    if leads:  # else retention could delete the first segments of a new topic before the next round sees it
        broker._prepare_topics(
            lambda topic: archiver.hold(logs_of(Subdirectory(broker._storage, topic.name), "").values())
        )
    return archiver.background(settings.archive_seconds, say, fenced)


def _tables(broker: Broker, settings: Settings, say: Callable[[str], None]) -> BackgroundTables:
    require_pyiceberg()
    from seglog.table.background import BackgroundTables  # noqa: PLC0415 - only servers with tables need it
    from seglog.table.schema_file import named_schema  # noqa: PLC0415 - as above
    from seglog.table.synchronize import TableSync  # noqa: PLC0415 - as above

    assert settings.table is not None  # noqa: S101 - the caller has checked it
    tables = TableSync(
        broker._storage,
        settings.table,
        active=settings.table_all,
        latest=settings.table_latest,
        schema=named_schema(settings.table_schema),
        catalog=settings.table_catalog,
    )
    return BackgroundTables(tables, settings.table_seconds, say)


def _value_schemas(place: str, catalog: dict[str, str] | None) -> ValueSchemas:
    from seglog.table.value_schemas import ValueSchemas  # noqa: PLC0415 - only servers with tables need it

    return ValueSchemas(place, catalog)


def app_of(services: Services) -> ASGIApp:
    """Return the ASGI app of these parts."""
    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, []).append(operation)
    routes = [Route(path, endpoint=Endpoint(operations, services)) for path, operations in by_path.items()]
    return Paths(routes, default=_nothing_here)


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request for an unknown path."""
    answer = problem(HttpProblem(404, "there is nothing at this path; /openapi.json lists what exists"))
    answer.raw_headers.extend(PROTECTING)
    await answer(scope, receive, send)
