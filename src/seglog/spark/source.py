"""The data source that Spark calls for format "seglog": checks options and schema, and returns readers and writers.

Spark imports this module in every session where seglog is installed, used or not; so it imports neither Arrow nor
compiled code. `options` explains the options.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from seglog.errors import InvalidArgument
from seglog.spark import catalog_table
from seglog.spark.read.options import Mode, ReadOptions
from seglog.spark.schema import spark_schema
from seglog.spark.write.options import CREATE_NAMES, WriteOptions, check_columns


class SeglogDataSource(DataSource):
    """Format "seglog": `spark.read.format("seglog").load(path)`; options in `seglog.spark.read.options`."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "seglog"

    def schema(self) -> StructType:
        """Return the columns; `load` calls this, so options that hold for batch and stream are checked here.

        Spark also asks for them to create a table, and passes the table's options only then (see `catalog_table`).
        """
        created = catalog_table.declared(self.options)
        if created is None:
            return spark_schema(self._read_options("any").columns)
        options = ReadOptions.parse(catalog_table.for_reading(created), "any", os.environ)
        self._create_topic_of(created)
        return catalog_table.with_options(spark_schema(options.columns), created)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch reader. Raises InvalidArgument for a bad option or schema."""
        options = self._read_options("batch", schema)
        _check_schema(schema, options)
        from seglog.spark.read.reader import SeglogReader  # noqa: PLC0415 - as above

        return SeglogReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the streaming reader; errors as in `reader`."""
        options = self._read_options("stream", schema)
        _check_schema(schema, options)
        from seglog.spark.read.stream import SeglogStreamReader  # noqa: PLC0415 - see above: imported when used

        return SeglogStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the batch sink. Raises InvalidArgument for bad options or columns, or mode "overwrite"."""
        if overwrite:
            raise InvalidArgument('mode overwrite is not supported: use mode("append"), or truncate the log first')
        options = self._write_options(schema)
        from seglog.spark.write.sink import BatchSink  # noqa: PLC0415 - see above: imported when used

        return BatchSink(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802 - as above
        """Return the streaming sink. Output mode complete appends the whole result each time, as Kafka's sink does."""
        options = self._write_options(schema, streaming=True)
        from seglog.spark.write.sink import StreamSink  # noqa: PLC0415 - see above: imported when used

        return StreamSink(options)

    def _write_options(self, schema: StructType, *, streaming: bool = False) -> WriteOptions:
        """Return the options of a write after checking its columns and place; create the topic if requested.

        Spark asks for a sink on the driver, before it runs tasks: so a wrong path fails here.
        """
        options = WriteOptions.parse(catalog_table.write_options(schema, self.options), streaming=streaming)
        check_columns(schema)
        from seglog.spark.write.destination import check_place, create_topic  # noqa: PLC0415 - see above

        by_column = "topic" in schema.names
        if options.create:
            if by_column and options.topic is None:
                raise InvalidArgument("option createTopic creates one topic; set option topic or drop column topic")
            create_topic(options.path, options.topic, options.partitions)
        check_place(options.path, options.topic, by_column=by_column)
        return options

    def _create_topic_of(self, created: Mapping[str, str]) -> None:
        """Create the topic of a new table, if its options request it."""
        if any(name in created for name in CREATE_NAMES):
            given = {name: text for name, text in created.items() if name in ("path", "topic", *CREATE_NAMES)}
            options = WriteOptions.parse(given)
            from seglog.spark.write.destination import create_topic  # noqa: PLC0415 - see above

            create_topic(options.path, options.topic, options.partitions)

    def _read_options(self, mode: Mode, schema: StructType | None = None) -> ReadOptions:
        """Return the options; a token from the driver's environment goes to the tasks with them."""
        given = self.options if schema is None else catalog_table.read_options(schema, self.options)
        return ReadOptions.parse(given, mode, os.environ)


def _check_schema(schema: StructType, options: ReadOptions) -> None:
    own = spark_schema(options.columns)
    if catalog_table.plain(schema) != own:
        raise InvalidArgument(f"format seglog has its own schema; omit .schema(): {own.simpleString()}")
