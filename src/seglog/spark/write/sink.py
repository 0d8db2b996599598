"""Writing from Spark: tasks stage whole segments, the driver publishes them in one transaction.

Exactly once: (query id, batch id) identifies a streaming batch; tasks read them from Spark's local properties and
return them. A replayed batch is recognised and not stored again. The stage of a failed or repeated (speculative) task
is never published, and the next batch deletes it. Spark pickles these classes by reference: they hold only options, and
`commit` runs in another process than `write`.
Source: format.md "publish"; what Spark does after a failed commit: design notes in docs/spark.md.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from seglog.errors import InvalidArgument
from seglog.log.staging import JOB
from seglog.spark.worker_process import keep_loaded
from seglog.spark.write.destination import Share, batch_name, everywhere, find, merged

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.spark.write.options import WriteOptions

_LOG = logging.getLogger("seglog.spark")
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


@dataclass
class Staged(WriterCommitMessage):
    """What one task staged: topic -> partition -> segments, with the query and batch."""

    query: str
    batch: int
    staged: dict[str, Share]


class BatchSink(DataSourceArrowWriter):
    """`df.write.format("seglog")`: every write is stored once, whichever of its tasks are repeated."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        self.query = options.query or f"{JOB}{uuid.uuid4().hex}"
        self.batch = options.batch or 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage one task's rows."""
        return _stage(self.options, iterator, self.query, self.batch)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish what the tasks staged."""
        _publish(self.options, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - tasks that died sent none
        """Remove what the tasks staged, unless it was published nevertheless."""
        for found in everywhere(self.options.path):
            found.forget(query=self.query, batch=self.batch)


class StreamSink(DataSourceStreamArrowWriter):
    """`df.writeStream.format("seglog")`: exactly once, across restarts of the query from its checkpoint.

    Spark refuses output mode update for every Python sink: use foreachBatch and write with `queryId` and `batchId`.
    """

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage one task's rows."""
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY_ID) if context else None
        batch = context.getLocalProperty(BATCH_ID) if context else None
        if query is None or batch is None:
            raise InvalidArgument("Spark passed no query and batch id; a batch without them might be stored twice")
        return _stage(self.options, iterator, query, int(batch))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's
        """Publish what the tasks staged; a batch already stored is recognised."""
        _publish(self.options, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's
        """Remove what the tasks staged. Spark calls this also after a commit that failed half-way: that batch stays."""
        for name, _, first in _by_topic(messages):
            find(self.options.path, name).forget(query=first.query, batch=first.batch)


def _stage(options: WriteOptions, batches: Iterator[pa.RecordBatch], query: str, batch: int) -> Staged:
    from seglog.spark.write.task import StagingTask  # noqa: PLC0415 - Arrow and the kernels: executors only

    with StagingTask(options.path, options.topic, batch_name(query, batch)) as task:
        for rows in batches:
            task.take(rows)
        staged = Staged(query, batch, task.finish())
    keep_loaded()
    return staged


def _publish(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Publish to every topic, after all of them are locked and have accepted their part."""
    with ExitStack() as locks:
        publications = [
            (locks.enter_context(find(options.path, name).held()), share, first)
            for name, share, first in _by_topic(messages)
        ]
        for publication, share, first in publications:
            publication.check(share, query=first.query, batch=first.batch)
        for publication, share, first in publications:
            if not publication.publish(share, query=first.query, batch=first.batch):
                where = publication.destination.root
                _LOG.warning("batch %d of query %r is already in %s: not stored again", first.batch, first.query, where)


def _by_topic(messages: Sequence[WriterCommitMessage | None]) -> Iterator[tuple[str, Share, Staged]]:
    """Yield each topic's name and segments, and a message with the batch. A failed task left None."""
    staged = [message for message in messages if isinstance(message, Staged)]
    for name, share in sorted(merged([message.staged for message in staged]).items()):
        yield name, share, staged[0]
