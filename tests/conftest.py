"""What all tests share: one Spark session a run, started when the first test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from seglog.spark.session import local_session  # noqa: PLC0415 - pyspark takes a second that few tests need

    session = local_session(
        "seglog tests",
        master="local[2]",
        config={
            "spark.sql.shuffle.partitions": "2",
            # Tests run many small queries: what the second compiler gains them is less than what it costs.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        },
    )
    yield session
    session.stop()
