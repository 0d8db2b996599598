"""The audit on Spark: distributes segments to tasks, caches their rows, and combines them on the driver."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING

from seglog.clock import system_clock
from seglog.errors import SeglogError
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.log.leases import Lease
from seglog.log.opening import storage_at
from seglog.log.repair.rebuild_manifest import read_or_rebuild
from seglog.segment.follower import ActiveFollower
from seglog.spark.audit.keys import COLUMNS
from seglog.spark.audit.report import AuditedLog, AuditReport, Finding, LogAudit, findings_of, steps_back
from seglog.spark.audit.segments import SegmentReport, SegmentShare, audit_segments
from seglog.spark.jobs.tasks import spread
from seglog.spark.read.plan import TASK_BYTES, TASKS
from seglog.topic.audit.figures import GroupFigures
from seglog.topic.delivered import Cuts
from seglog.topic.layout.places import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

FINDINGS = (
    "kind string, topic string, partition int, start bigint, stop bigint, records bigint, path string, "
    "position bigint, detail string"
)


class Work:
    """One audit, planned and distributed at creation; `report` reads everything, once.

    keys, duplicates: DataFrames over the cached rows; `resources` releases the cache and the leases.
    """

    def __init__(
        self,
        spark: SparkSession,
        places: Sequence[Place],
        cuts: Cuts,
        identity: str | None,
        resources: ExitStack,
    ) -> None:
        self._spark = spark
        self._cuts = cuts
        self._identity = identity
        self._logs: list[AuditedLog] = []
        self._segments: dict[tuple[str, int], list[SegmentReport]] = {}
        shares = [share for place in places for share in self._shares(place, len(places), resources)]
        self._rows = spread(spark, shares, audit_segments, COLUMNS).persist()
        resources.callback(self._rows.unpersist)
        self._by_key = self._joined()
        self.keys = self._keys()
        self.duplicates = self._duplicates()

    # --- distributing ---------------------------------------------------------------------------------------------

    def _shares(self, place: Place, logs: int, resources: ExitStack) -> list[SegmentShare]:
        """Look at a log, hold its files, and split its segments into shares."""
        storage = storage_at(place.path)
        lease = Lease(storage)  # holds all files that the manifest read next names
        resources.callback(lease.release)
        manifest, rebuilt = read_or_rebuild(storage, system_clock)
        try:
            active = ActiveFollower(storage, manifest.active, interval=4096, durable=False)
            active.refresh()
            end, size = active.reader.next_offset, active.reader.size
        except SeglogError:  # the audit of that segment reports the problem
            end, size = manifest.active.base_offset, 0
        trouble = f"manifest: {rebuilt.detail}" if rebuilt is not None else None
        self._logs.append(
            AuditedLog(place.topic, place.partition, place.path, manifest.start, end, _compacts(manifest), trouble)
        )
        cuts = tuple(of[place.key] for of in self._cuts.values())
        return [
            SegmentShare(place.topic, place.partition, place.path, lines, manifest.start, end, cuts, self._identity)
            for lines in _dealt(manifest.segments, size, max(1, TASKS // logs))
        ]

    # --- what the tasks found -------------------------------------------------------------------------------------

    def _joined(self) -> DataFrame:
        """Join the summaries of each key's stretches; a step back in time can lie between two of them."""
        from pyspark.sql import Window, functions  # noqa: PLC0415 - an optional dependency

        key = ["topic", "partition", "key"]
        earlier = functions.lag("last_time").over(Window.partitionBy(*key).orderBy("first_offset"))
        stretches = self._rows.where("key IS NOT NULL").withColumn("before", earlier)
        return stretches.groupBy(*key).agg(
            functions.max("last_offset").alias("appended"),
            functions.array(*(functions.expr(f"max(delivered[{group}])") for group in range(len(self._cuts)))).alias(
                "delivered"
            ),
            functions.max_by("tombstone", "last_offset").alias("tombstone"),
            functions.sum("records").alias("records"),
            functions.sum(functions.expr("backwards + coalesce(cast(first_time < before AS bigint), 0)")).alias(
                "backwards"
            ),
        )

    def _keys(self) -> DataFrame:
        """Add a row per group for every key; without groups one without a group."""
        from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency

        described = ["topic", "partition", "key", "appended", "tombstone"]
        figures = ["records", "backwards"]
        if not self._cuts:
            nothing = ["cast(null AS string) AS group", "cast(null AS bigint) AS delivered", "false AS undelivered"]
            return self._by_key.selectExpr(*described, *nothing, *figures)
        names = functions.array(*(functions.lit(group) for group in self._cuts)).alias("group")
        pairs = functions.arrays_zip(names, "delivered")
        of_groups = self._by_key.withColumn("pair", functions.explode(pairs))
        return of_groups.selectExpr(
            *described, "pair.group", "pair.delivered", f"{_behind('pair.delivered')} AS undelivered", *figures
        )

    def _duplicates(self) -> DataFrame:
        from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency

        marked = self._rows.where("identity IS NOT NULL").groupBy("topic", "identity")
        first = functions.expr("min(struct(partition, offset))").alias("first")
        found = marked.agg(functions.count("offset").alias("records"), first).where("records > 1")
        return found.select("topic", "identity", "records", "first.partition", "first.offset")

    def report(self) -> AuditReport:
        """Read everything and return the figures."""
        for row in self._rows.where("report IS NOT NULL").select("topic", "partition", "report").collect():
            segment = SegmentReport(**json.loads(row["report"]))
            self._segments.setdefault((row["topic"], row["partition"]), []).append(segment)
        for segments in self._segments.values():
            segments.sort(key=lambda segment: segment.base)
        undelivered = (f"count_if({_behind(f'delivered[{group}]')})" for group in range(len(self._cuts)))
        counted = self._by_key.groupBy("topic", "partition").agg(
            *_counts("count(*) AS keys", "count_if(NOT tombstone) AS live_keys", "sum(backwards) AS backwards"),
            *_counts(f"array({', '.join(undelivered)}) AS undelivered"),
        )
        of_keys = {(row["topic"], row["partition"]): row for row in counted.collect()}
        logs = tuple(self._log_audit(log, of_keys.get((log.topic, log.partition))) for log in self._logs)
        duplicates = None
        if self._identity is not None:
            more = self.duplicates.selectExpr("sum(records - 1) AS more").first()
            duplicates = (more["more"] if more is not None else None) or 0
        return AuditReport(logs=logs, duplicates=duplicates)

    def _log_audit(self, log: AuditedLog, keys: Row | None) -> LogAudit:
        segments = self._segments.get((log.topic, log.partition), [])
        findings = list(findings_of(log, segments))
        return LogAudit(
            topic=log.topic,
            partition=log.partition,
            path=log.path,
            start=log.start,
            next_offset=log.next_offset,
            segments=len(segments),
            bytes=sum(segment.bytes for segment in segments),
            records=sum(segment.records for segment in segments),
            tombstones=sum(segment.tombstones for segment in segments),
            keys=keys["keys"] if keys else 0,
            live_keys=keys["live_keys"] if keys else 0,
            lost=sum(finding.records for finding in findings if finding.kind == "lost"),
            duplicated=sum(finding.records for finding in findings if finding.kind == "duplicated"),
            corrupt=sum(segment.corrupt for segment in segments),
            problems=sum(finding.kind == "corrupt" for finding in findings),
            backwards=steps_back(segments),
            backwards_by_key=keys["backwards"] if keys else 0,
            groups=tuple(
                GroupFigures(
                    group=group,
                    delivered=of[log.topic, log.partition],
                    undelivered_records=sum(segment.undelivered[number] for segment in segments),
                    undelivered_keys=keys["undelivered"][number] if keys else 0,
                )
                for number, (group, of) in enumerate(self._cuts.items())
            ),
        )

    def findings(self) -> DataFrame:
        """Return the problems of all logs; call it after `report`."""
        found: Iterator[Finding] = (
            finding
            for log in self._logs
            for finding in findings_of(log, self._segments.get((log.topic, log.partition), []))
        )
        return self._spark.createDataFrame([tuple(asdict(finding).values()) for finding in found], FINDINGS)


def _behind(delivered: str) -> str:
    """Return the condition that a key's latest record was not delivered."""
    return f"({delivered} IS NULL OR {delivered} < appended)"


def _counts(*expressions: str) -> list[object]:
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency

    return [functions.expr(expression) for expression in expressions]


def _compacts(manifest: Manifest) -> bool:
    """Whether gaps between segments are explained: by the log's policy, or because it already has gaps."""
    return manifest.config.retention.compact or any(not entry.dense for entry in manifest.segments)


def _dealt(segments: Sequence[SegmentEntry], active_bytes: int, tasks: int) -> Iterator[tuple[bytes, ...]]:
    """Yield the manifest lines of neighbouring segments, grouped by bytes into about `tasks` groups."""
    sizes = [entry.bytes or active_bytes for entry in segments]
    target = min(TASK_BYTES, sum(sizes) // tasks)
    lines: list[bytes] = []
    filled = 0
    for entry, size in zip(segments, sizes, strict=True):
        if lines and filled + size > target:
            yield tuple(lines)
            lines, filled = [], 0
        lines.append(entry.line)
        filled += size
    yield tuple(lines)
