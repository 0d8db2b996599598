"""The data source Spark calls for format "seglog": checks options and schema, and hands out readers.

Spark loads this module in every session where seglog is installed, whether it is used or not; so it imports
neither Arrow nor compiled code. What the options mean is in `options`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader

from seglog.errors import InvalidArgument
from seglog.spark.options import ReadOptions
from seglog.spark.schema import spark_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class SeglogDataSource(DataSource):
    """Format "seglog": `spark.read.format("seglog").load(path)`; options in `seglog.spark.options`."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "seglog"

    def schema(self) -> StructType:
        """Return the columns; every option is checked here, when `load` is called."""
        return spark_schema(include_headers=ReadOptions.parse(self.options).include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch reader; InvalidArgument for a schema that is not the source's own."""
        options = ReadOptions.parse(self.options)
        own = spark_schema(include_headers=options.include_headers)
        if schema != own:
            raise InvalidArgument(f"format seglog has its own schema, leave .schema() out: {own.simpleString()}")
        from seglog.spark.reader import SeglogReader  # noqa: PLC0415 - see above: loaded when used

        return SeglogReader(options)
