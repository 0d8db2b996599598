"""Spark reading an archive from an S3 server, against Parquet of the same rows in the same bucket.

The server is versitygw on this machine, in a process of its own, with its files on the same disk. Both sides run on two
threads in one session. Spark has no access to S3 by itself: its Parquet reader needs hadoop-aws, whose bundle has 600
MB. So pyarrow reads the Parquet in Spark's tasks, a row group each, and returns Arrow batches, as our source does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import seglog
from benchmarks import spark_io
from benchmarks.data import keyed_table, record_bytes
from benchmarks.peers.tools import free_port, program, server, skip
from benchmarks.scale import Scale
from benchmarks.timing import Figure, in_turn, settle, stopwatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VALUE_BYTES = 100
SEGMENT_BYTES = 64 * 2**20
GROUP_ROWS = 500_000
BUCKET, KEY, SECRET = "bench", "test", "secret"
COLUMNS = ("offset", "timestamp", "key", "value")


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure values of 100 B with keys of 16 B."""
    gateway = program("versitygw") or shutil.which("versitygw", path=Path.home() / "go" / "bin")
    if gateway is None:
        skip("versitygw", "it is not installed: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0")
        return
    total = min(scale.spark_rows * record_bytes(VALUE_BYTES), scale.spark_bytes)
    with _served(gateway, directory / "bucket") as endpoint:
        log, url = directory / "log", f"s3://{BUCKET}/archive"
        with seglog.open(log, seglog.LogConfig(segment_bytes=SEGMENT_BYTES)) as writer:
            writer.append_batch(keyed_table(VALUE_BYTES, total))
        with seglog.Archiver(log, url) as archiver:
            archiver.step()
        files = _parquet(log, endpoint)
        yield _restore(url, log, directory, scale)
        with spark_io.session() as spark:
            yield from _reads(spark, url, files, endpoint, scale)


@contextmanager
def _served(gateway: str, root: Path) -> Iterator[str]:
    """Run the server; yield its endpoint. The environment has it and the credentials meanwhile."""
    port = free_port()
    (root / "objects" / BUCKET).mkdir(parents=True)
    endpoint = f"127.0.0.1:{port}"
    given = {
        "AWS_ENDPOINT_URL": f"http://{endpoint}",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    command = [gateway, "--port", endpoint, "--access", KEY, "--secret", SECRET, "posix", str(root / "objects")]
    try:
        with server(command, port, output=root / "versitygw.txt"):
            yield endpoint
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _bucket(endpoint: str) -> Any:
    from pyarrow.fs import S3FileSystem  # noqa: PLC0415 - imported where a task runs

    return S3FileSystem(
        access_key=KEY, secret_key=SECRET, endpoint_override=endpoint, scheme="http", region="us-east-1"
    )


def _parquet(log: Path, endpoint: str) -> list[str]:
    """Write the rows as uncompressed Parquet, a file with one row group for each task; return the paths."""
    import pyarrow as pa  # noqa: PLC0415 - as above
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    files, bucket = [], _bucket(endpoint)
    with seglog.open(log, mode="r") as reader:
        for start in range(0, len(reader), GROUP_ROWS):
            batches = reader.batches(start, start + GROUP_ROWS, values="binary")
            rows = pa.Table.from_batches([batch.select(COLUMNS) for batch in batches])
            files.append(f"{BUCKET}/parquet/{start:012d}.parquet")
            pq.write_table(rows, files[-1], compression="none", row_group_size=GROUP_ROWS, filesystem=bucket)
    return files


def _reads(spark: SparkSession, url: str, files: list[str], endpoint: str, scale: Scale) -> Iterator[Figure]:
    from seglog.spark.schema import spark_schema  # noqa: PLC0415 - pyspark takes a second

    def archived(columns: str) -> DataFrame:
        return spark.read.format("seglog").option("columns", columns).load(url)

    def parquet(columns: str) -> DataFrame:
        wanted = columns.split(",")

        def read(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow.parquet as pq  # noqa: PLC0415 - in the task

            for batch in batches:
                for file in batch.column("file").to_pylist():
                    yield from pq.read_table(file, columns=wanted, filesystem=_bucket(endpoint)).to_batches()

        named = spark.createDataFrame([(file,) for file in files], "file string").repartition(len(files))
        return named.mapInArrow(read, spark_schema(wanted))

    def figure(what: str, columns: str, finish: Callable[[DataFrame], object]) -> Figure:
        def side(read: Callable[[str], DataFrame]) -> float:
            settle()
            with stopwatch() as watch:
                finish(read(columns))
            return watch.seconds

        ours, other = in_turn(lambda: side(archived), lambda: side(parquet), repeats=scale.spark_repeats)
        return Figure(
            name=f"Spark {what}, archive on S3",
            against="Parquet on S3, by pyarrow",
            ours=ours,
            other=other,
            work=1,
            unit="run",
        )

    yield figure("read, noop", ",".join(COLUMNS), lambda frame: frame.write.format("noop").mode("overwrite").save())
    yield figure(f"read, {spark_io.SUM}", "value", lambda frame: frame.selectExpr(spark_io.SUM).collect())


def _restore(url: str, log: Path, directory: Path, scale: Scale) -> Figure:
    size = sum(store.stat().st_size for store in log.glob("*.store"))

    def ours() -> float:
        settle()
        with stopwatch() as watch:
            seglog.restore(url, directory / "restored")
        shutil.rmtree(directory / "restored")
        return watch.seconds

    def copied() -> float:
        (directory / "copy").mkdir()
        settle()
        with stopwatch() as watch:
            for store in log.glob("*.store"):
                subprocess.run(["cp", store, directory / "copy"], check=True)
            subprocess.run(["sync", *(directory / "copy").iterdir()], check=True)
        shutil.rmtree(directory / "copy")
        return watch.seconds

    mine, others = in_turn(ours, copied, repeats=scale.recoveries)
    return Figure(
        name="archive on S3, restore", against="cp, sync", ours=mine, other=others, work=size / 1e9, unit="GB"
    )
