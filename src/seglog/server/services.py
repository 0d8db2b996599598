"""The parts of a running server in one object, which the routes use. `app` creates and closes it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seglog.server.problems import HttpProblem

if TYPE_CHECKING:
    from seglog.archive.background import BackgroundArchiver
    from seglog.server.overview import Overview
    from seglog.server.rights.access import Access
    from seglog.server.rights.guard import Guard
    from seglog.server.rights.terms import Terms
    from seglog.server.runtime.appends import Appends
    from seglog.server.runtime.disk_space import Space
    from seglog.server.runtime.following import Following
    from seglog.server.runtime.kept_groups import KeptGroups
    from seglog.server.runtime.memory import Memory
    from seglog.server.runtime.metrics import Metrics
    from seglog.server.runtime.mirroring import Mirroring
    from seglog.server.runtime.snapshots import Snapshots
    from seglog.server.runtime.spool import Spool
    from seglog.server.runtime.waiting import Waiting
    from seglog.server.runtime.workers import Workers
    from seglog.server.settings import Settings
    from seglog.table.background import BackgroundTables
    from seglog.table.value_schemas import ValueSchemas
    from seglog.topic.broker import Broker
    from seglog.topic.cleaning import Cleaner

DEFAULT_TOPIC = "default"


@dataclass(slots=True, eq=False)
class Services:
    """The parts of a running server.

    Separate threads, so that no call waits for slower ones: reads: a bounded piece of a log; scans: a whole partition;
    groups: members and commits; care: compaction and maintenance. tails: live ones now. groups_made: the names of the
    groups that each token has created. kafka: its clients, once that protocol is spoken beside HTTP.
    value_schemas: what tables know of the values. altering: held from reading a topic's config to storing it changed.
    """

    settings: Settings
    broker: Broker
    cleaner: Cleaner
    access: Access
    guard: Guard
    spool: Spool
    appends: Appends
    mirroring: Mirroring
    terms: Terms
    memory: Memory
    waiting: Waiting
    reads: Workers
    scans: Workers
    groups: Workers
    care: Workers
    metrics: Metrics
    space: Space
    snapshots: Snapshots
    kept_groups: KeptGroups
    archiving: BackgroundArchiver | None = None
    tables: BackgroundTables | None = None
    following: Following | None = None
    value_schemas: ValueSchemas | None = None
    kafka: Overview | None = None
    altering: threading.Lock = field(default_factory=threading.Lock)
    tails: int = 0
    description: bytes | None = None  # of all requests, once it was requested
    groups_made: dict[str, set[str]] = field(default_factory=dict)

    def check_running(self) -> None:
        """Refuse new requests while the server stops."""
        if self.waiting.stopped:
            raise HttpProblem(503, "the server is stopping; retry when it is back")

    def end_waits(self) -> None:
        """End requests that wait for records or for copies: the server stops."""
        self.waiting.stop()
        self.mirroring.stop()

    def close(self) -> None:
        """Close everything: first appends, then housekeeping, then the logs."""
        self.mirroring.close()
        self.appends.close()
        for workers in (self.reads, self.scans, self.groups, self.care):
            workers.close()
        if self.tables is not None:  # after the last append
            self.tables.close()
        if self.archiving is not None:
            self.archiving.close()
        self.cleaner.close()
        self.broker.close()
        if self.following is not None:
            self.following.close()
