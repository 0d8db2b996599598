"""Registers format "seglog" with Spark, which imports every module named `pyspark_*` and uses its DefaultSource."""

from seglog.spark.source import SeglogDataSource as DefaultSource

__all__ = ["DefaultSource"]
