"""Makes format "seglog" known to Spark, which imports every module named `pyspark_*` and registers its
DefaultSource.
"""

from seglog.spark.source import SeglogDataSource as DefaultSource

__all__ = ["DefaultSource"]
