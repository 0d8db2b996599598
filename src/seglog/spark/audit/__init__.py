"""Is everything there, once, in order, sound, and delivered? A log, a topic or a broker's topics, checked whole.

    with audit(spark, "orders", delivered=read_checkpoint("checkpoints/orders")) as found:
        found.report.ok, found.report.logs          # figures, exact
        found.findings.show()                       # what is lost, duplicated or corrupt, and where
        found.undelivered.show()                    # keys whose latest record was not delivered

- lost: offsets that should hold a record and do not, unless compaction took them; also the records of a segment with
  gaps that its manifest knows of and its store does not give.
- duplicated: offsets that two segments hold.
- duplicates: records that carry the identity of an earlier one: the value of header `seglog-id` (or of another header
  that your producers set for each append), anywhere in the topic; identity="content" compares time, key, value and
  headers instead. Records without that header are not compared.
- out of order: records older than the one before them, in their log and of their key. Counted, and no fault.
- corrupt: whatever `seglog verify` finds, record by record, by the same code, in one task for a few segments each.
- undelivered: records and keys behind the offsets that consumer groups have committed.

What it tells of keys is what `seglog.topic.audit` tells without Spark, in the same columns and figures.

The files are held by a lease until the result is closed, so that compaction and retention do not disturb the audit.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from seglog.spark.audit.delivered import delivered_offsets
from seglog.spark.audit.report import AuditReport, Finding, LogAudit
from seglog.spark.jobs.pins import logs_behind
from seglog.topic.delivered import CONSUMER, read_checkpoint

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession

    from seglog.spark.audit.delivered import Delivered

IDENTITY_HEADER = "seglog-id"

__all__ = ["CONSUMER", "IDENTITY_HEADER", "Audit", "AuditReport", "Finding", "LogAudit", "audit", "read_checkpoint"]


@dataclass(frozen=True)
class Audit:
    """An audit's result; a context manager that lets go of what the DataFrames are read from.

    findings: the fields of Finding. keys: a row for every key and group, the columns of `KeyAudit.keys`, and records
    and backwards (how many of the key's are older than the one before). duplicates: topic, identity, records, partition
    and offset of the first.
    """

    report: AuditReport
    findings: DataFrame
    keys: DataFrame
    duplicates: DataFrame
    resources: ExitStack

    @property
    def undelivered(self) -> DataFrame:
        """The rows of `keys` whose latest record was not delivered; none where that was not asked."""
        return self.keys.where("undelivered")

    def close(self) -> None:
        """Let go of the cached rows and of the files. Closing twice is harmless."""
        self.resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def audit(
    spark: SparkSession,
    path: str | Path,
    *,
    delivered: Delivered = None,
    identity: str | None = IDENTITY_HEADER,
) -> Audit:
    """Check every byte and every record of a log, a topic or a broker's topics as they stand now; changes nothing.

    delivered: the offsets up to which (exclusive) consumer groups have got everything, group -> topic -> partition ->
    offset, or a DataFrame (group, topic, partition, offset); without the groups, it is that of the group "consumer".
    Nothing was delivered of a partition that is not named. identity: the header that names an append, "content", or
    None to look for no duplicates. Works where opening a log refuses. LogNotFound or NotALog where there is none,
    InvalidArgument or InvalidType for delivered offsets that cannot be.
    """
    from seglog.spark.audit.work import Work  # noqa: PLC0415 - pyarrow loads when a job runs

    found = logs_behind(path)
    cuts = delivered_offsets(delivered, found)
    with ExitStack() as resources:
        work = Work(spark, found, cuts, identity, resources)
        report = work.report()
        return Audit(report, work.findings(), work.keys, work.duplicates, resources.pop_all())
