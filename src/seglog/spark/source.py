"""The data source Spark calls for format "seglog": checks options and schema, and hands out readers.

Spark loads this module in every session where seglog is installed, whether it is used or not; so it imports
neither Arrow nor compiled code. What the options mean is in `options`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from seglog.errors import InvalidArgument
from seglog.spark.read.options import ReadOptions
from seglog.spark.schema import spark_schema
from seglog.spark.write.options import WriteOptions, check_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from seglog.spark.read.options import Mode


class SeglogDataSource(DataSource):
    """Format "seglog": `spark.read.format("seglog").load(path)`; options in `seglog.spark.read.options`."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "seglog"

    def schema(self) -> StructType:
        """Return the columns; what holds for batch and stream is checked here, when `load` is called."""
        return spark_schema(self._read_options("any").columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch reader; InvalidArgument for a bad option, or a schema that is not the source's own."""
        options = self._read_options("batch")
        _check_schema(schema, options)
        from seglog.spark.read.reader import PushdownReader, SeglogReader  # noqa: PLC0415 - see above: loaded when used

        return PushdownReader(options) if options.push_filters and _filters_follow() else SeglogReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the streaming reader; errors as in `reader`."""
        options = self._read_options("stream")
        _check_schema(schema, options)
        from seglog.spark.read.stream import SeglogStreamReader  # noqa: PLC0415 - see above: loaded when used

        return SeglogStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the batch sink; InvalidArgument for bad options, columns, or mode "overwrite"."""
        options = WriteOptions.parse(self.options)
        check_columns(schema)
        if overwrite:
            raise InvalidArgument('mode overwrite is not for a log: use mode("append"), or truncate the log before')
        from seglog.spark.write.sink import BatchSink  # noqa: PLC0415 - see above: loaded when used

        return BatchSink(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802 - as above
        """Return the streaming sink. Output mode complete appends the whole result each time, as Kafka's sink does."""
        options = WriteOptions.parse(self.options, streaming=True)
        check_columns(schema)
        from seglog.spark.write.sink import StreamSink  # noqa: PLC0415 - see above: loaded when used

        return StreamSink(options)

    def _read_options(self, mode: Mode) -> ReadOptions:
        """Return the options; a token of the environment is the driver's, and goes to the tasks with them."""
        return ReadOptions.parse(self.options, mode, os.environ)


def _check_schema(schema: StructType, options: ReadOptions) -> None:
    own = spark_schema(options.columns)
    if schema != own:
        raise InvalidArgument(f"format seglog has its own schema, leave .schema() out: {own.simpleString()}")


def _filters_follow() -> bool:
    """Whether Spark is going to hand filters down to the reader.

    It does where its setting is on and the query has filters, in a process that runs this module of its; and it refuses
    a reader that takes filters where the setting is off, which no reader is told.
    """
    return "pyspark.sql.worker.data_source_pushdown_filters" in {*sys.modules, _main_module()}


def _main_module() -> str | None:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return None if spec is None else spec.name
