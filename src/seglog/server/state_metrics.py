"""Prometheus metrics of the state of logs, groups and buffers, collected at the time of a scrape."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from seglog.errors import SeglogError

if TYPE_CHECKING:
    from seglog.server.services import Services
    from seglog.table.background import BackgroundTables

MOST_GROUP_SERIES = 2000  # clients choose group names, and each series costs memory, also in Prometheus


class StateMetrics(Collector):
    """Reads the services of a server and yields their metrics."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        yield from self._logs()
        yield from self._lag()
        yield from self._housekeeping()
        yield from self._copies()
        services = self._services
        gauges: dict[str, tuple[str, float]] = {
            "seglog_spool_memory_bytes": ("Bytes of bodies under way in memory.", services.memory.held["bodies"]),
            "seglog_spool_disk_bytes": ("Bytes of bodies under way in files.", services.spool.disk),
            "seglog_answer_bytes": ("Bytes of answers under way.", services.memory.held["answers"]),
            "seglog_tails": ("Live tails.", services.tails),
            "seglog_snapshots": ("Views that reads of several answers go on with.", len(services.snapshots)),
            "seglog_snapshot_bytes": ("Bytes of deleted files that they keep.", services.snapshots.bytes()),
            "seglog_free_bytes": ("Bytes that are free where the topics are.", services.space.free_bytes()),
            "seglog_unsynced_partitions": ("With records to be synced soon.", services.appends.syncing.unsynced),
            "seglog_unpublished_transactions": (
                "Committed, and their records cannot be appended.",
                len(services.broker.unpublished),
            ),
            "seglog_memory_limit_bytes": ("The budget of memory for all requests.", services.memory.size),
        }
        if services.archiving is not None:
            gauges["seglog_archive_age_seconds"] = ("Since the last complete round.", services.archiving.age)
            gauges["seglog_archive_commit"] = ("Number of the newest commit.", services.archiving.commit)
            gauges["seglog_archive_stopped"] = ("1 if it has stopped.", int(services.archiving.failure is not None))
        if services.tables is not None:
            gauges["seglog_table_age_seconds"] = ("Since the last complete round began.", services.tables.age)
            yield self._failing_tables(services.tables)
        for name, (about, value) in gauges.items():
            yield GaugeMetricFamily(name, about, value=value)
        held = GaugeMetricFamily("seglog_memory_bytes", "Bytes of the budget in use, by kind.", labels=["kind"])
        for kind, size in services.memory.held.items():
            held.add_metric([kind], size)
        yield held

    def _logs(self) -> Iterator[Metric]:
        labels = ["topic", "partition"]
        next_offset = GaugeMetricFamily("seglog_next_offset", "The offset that the next record gets.", labels=labels)
        lowest = GaugeMetricFamily("seglog_lowest_offset", "The first offset that is there.", labels=labels)
        durable = GaugeMetricFamily("seglog_durable_offset", "Records before it survive power loss.", labels=labels)
        size = GaugeMetricFamily("seglog_log_bytes", "Bytes of stores.", labels=labels)
        segments = GaugeMetricFamily("seglog_segments", "Segments.", labels=labels)
        stored = GaugeMetricFamily(
            "seglog_table_offset", "Tables have every record before it; for logs whose retention waits.", labels=labels
        )
        broker = self._services.broker
        for name in broker.topics():
            with suppress(SeglogError):  # deleted just now, or reported by /health
                topic = broker.topic(name)
                for number in range(topic.partitions):
                    log, at = topic.partition(number), [name, str(number)]
                    next_offset.add_metric(at, log.next_offset)
                    lowest.add_metric(at, log.lowest_offset)
                    durable.add_metric(at, log.durable_offset)
                    size.add_metric(at, log.size)
                    segments.add_metric(at, len(log.view().manifest.segments))
                    if (offset := log.table_offset) is not None:
                        stored.add_metric(at, offset)
        yield from (next_offset, lowest, durable, size, segments, stored)

    def _lag(self) -> Iterator[Metric]:
        lag = GaugeMetricFamily(
            "seglog_group_lag", "Records a group has not read.", labels=["group", "topic", "partition"]
        )
        members = GaugeMetricFamily("seglog_group_members", "Members of a group.", labels=["group"])
        groups = self._services.broker.groups
        names, series, left_out = groups.names(), 0, 0
        for name in names:
            if series >= MOST_GROUP_SERIES:
                left_out += 1
                continue
            with suppress(SeglogError):
                state = groups.describe(name)
                members.add_metric([name], len(state.members))
                for (topic, number), records in state.lag.items():
                    lag.add_metric([name, topic, str(number)], records)
                series += 1 + len(state.lag)
        yield from (lag, members)
        yield GaugeMetricFamily("seglog_groups", "Consumer groups.", value=len(names))
        yield GaugeMetricFamily(
            "seglog_groups_left_out", "Groups without metrics, as there are too many.", value=left_out
        )

    def _copies(self) -> Iterator[Metric]:
        """Yield what the copy of another server lacks, if this server follows one."""
        following, labels = self._services.following, ["topic", "partition"]
        if following is None:
            return
        records = GaugeMetricFamily("seglog_mirror_lag_records", "Records that the copy lacks.", labels=labels)
        size = GaugeMetricFamily("seglog_mirror_lag_bytes", "Their bytes.", labels=labels)
        seconds = GaugeMetricFamily(
            "seglog_mirror_lag_seconds", "Since the copy had all records of its leader.", labels=labels
        )
        for (topic, number), lag in following.lags.items():
            records.add_metric([topic, str(number)], lag.records)
            size.add_metric([topic, str(number)], lag.bytes)
            seconds.add_metric([topic, str(number)], lag.seconds)
        yield from (records, size, seconds)
        stopped = following.failure is not None
        yield GaugeMetricFamily("seglog_mirror_stopped", "1 if copying has ended.", value=int(stopped))
        connected = following.state == "copying"
        yield GaugeMetricFamily("seglog_mirror_connected", "1 if the leader can be reached.", value=int(connected))
        damaged = len(following.damaged)
        yield GaugeMetricFamily(
            "seglog_mirror_damaged_partitions", "Partitions with a damaged record at the leader.", value=damaged
        )

    @staticmethod
    def _failing_tables(tables: BackgroundTables) -> Metric:
        failing = GaugeMetricFamily(
            "seglog_table_failures", "Rounds in a row that failed for a topic's table.", labels=["topic"]
        )
        for topic, one in tables.failures.items():
            failing.add_metric([topic], one.rounds)
        return failing

    def _housekeeping(self) -> Iterator[Metric]:
        failures = GaugeMetricFamily(
            "seglog_housekeeping_failures", "Failures of housekeeping in a row.", labels=["log"]
        )
        dirty = GaugeMetricFamily("seglog_dirty_ratio", "Share of bytes never compacted.", labels=["log"])
        waiting = GaugeMetricFamily(
            "seglog_to_compress_bytes", "Bytes of sealed segments that wait for compression.", labels=["log"]
        )
        for state in self._services.cleaner.state():
            failures.add_metric([state.name], state.failures)
            dirty.add_metric([state.name], state.ratio)
            waiting.add_metric([state.name], state.to_compress)
        yield from (failures, dirty, waiting)
