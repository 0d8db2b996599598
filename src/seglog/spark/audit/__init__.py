"""Audit of a log, a topic or a broker's topics: is every record there, once, in order, intact, and delivered?

    with audit(spark, "orders", delivered=read_checkpoint("checkpoints/orders")) as found:
        found.report.ok, found.report.logs          # figures, exact
        found.findings.show()                       # what is lost, duplicated or corrupt, and where
        found.undelivered.show()                    # keys whose latest record was not delivered

- lost: offsets that should hold a record and do not, unless compaction removed it; also records of a segment with gaps
  that its manifest counts and its store does not return.
- duplicated: offsets that two segments hold.
- duplicates: records with the identity of an earlier one: the value of header `seglog-id` (or of another header that
  your producers set per append), anywhere in the topic; identity="content" compares time, key, value and headers
  instead. Records without that header are not compared.
- out of order: records older than the one before them, in their log and of their key. Counted, but not a problem.
- corrupt: whatever `seglog verify` finds, record by record, by the same code, in one task per few segments.
- undelivered: records and keys after the offsets that consumer groups have committed.

Results about keys are those of `seglog.topic.audit` without Spark, in the same columns and figures.

A lease holds the files until the result is closed, so that compaction and retention do not disturb the audit.
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
    """The result of an audit; a context manager that releases the data of the DataFrames.

    findings: the fields of Finding. keys: a row for every key and group, with the columns of `KeyAudit.keys`, records,
    and backwards (how many of the key's records are older than the one before). duplicates: topic, identity, records,
    partition and offset of the first.
    """

    report: AuditReport
    findings: DataFrame
    keys: DataFrame
    duplicates: DataFrame
    resources: ExitStack

    @property
    def undelivered(self) -> DataFrame:
        """The rows of `keys` whose latest record was not delivered; none if `delivered` was not given."""
        return self.keys.where("undelivered")

    def close(self) -> None:
        """Release the cached rows and the files. Closing twice is harmless."""
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
    """Check every byte and every record of a log, a topic or a broker's topics in their present state; changes nothing.

    Works also on logs that cannot be opened.

    Args:
        spark: The session.
        path: A log, a topic or a broker's directory.
        delivered: The offsets up to which (exclusive) consumer groups got everything: group -> topic -> partition ->
            offset, or a DataFrame (group, topic, partition, offset); without group names, of the group "consumer". A
            partition that is not named counts as not delivered.
        identity: The header that identifies an append, "content", or None to look for no duplicates.

    Raises:
        LogNotFound, NotALog: there is no log at the path.
        InvalidArgument, InvalidType: the delivered offsets are invalid.
    """
    from seglog.spark.audit.work import Work  # noqa: PLC0415 - imports pyarrow when a job runs

    found = logs_behind(path)
    cuts = delivered_offsets(delivered, found)
    with ExitStack() as resources:
        work = Work(spark, found, cuts, identity, resources)
        report = work.report()
        return Audit(report, work.findings(), work.keys, work.duplicates, resources.pop_all())
