"""Format "seglog" by url: what a server's logs give is what their directories give, and loss and refusals are told."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import seglog
from seglog import Client
from seglog.errors import (
    ConnectionFailed,
    InvalidArgument,
    LogNotFound,
    LogTruncated,
    MissingExtra,
    OffsetOutOfRange,
    Unauthorized,
)
from seglog.spark.read import server_logs
from seglog.spark.read.explain import explain_read
from seglog.spark.read.options import ReadOptions
from seglog.spark.read.reader import SeglogReader
from seglog.spark.read.stream import SeglogStreamReader
from seglog.spark.source import SeglogDataSource
from seglog.spark.write.options import WriteOptions
from seglog.topic import Topic
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from seglog.client.topic import RemoteTopic

pytestmark = pytest.mark.spark
SMALL = seglog.LogConfig(segment_bytes=4096)
KEYED = seglog.LogConfig(segment_bytes=4096, retention=seglog.Retention(compact=True))
MOMENT = 1_700_000_000_000_000
MILLIS = MOMENT // 1000
MANY = 100_000  # records: more than one page
SECRET = "reader-of-orders"  # noqa: S105 - of this file's own server
Rows = list[dict[str, Any]]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with topics that no test changes: two in several segments, one with gaps that compaction left."""
    directory = tmp_path_factory.mktemp("served")
    for name in ("orders", "bills"):
        with Topic.create(directory / name, partitions=2, config=SMALL) as topic:
            for number in range(300):
                key = None if number % 3 else b"\xff%d" % number
                topic.append(b"%s %040d" % (name.encode(), number), key=key, timestamp=MOMENT + 1000 * number)
    with Topic.create(directory / "state", partitions=1, config=KEYED) as topic:
        for number in range(200):
            value = None if number % 10 == 9 else b"%060d" % number
            topic.append(value, key=b"%d" % (number % 40), headers=[("n", b"%d" % number), ("none", None)])
        topic.partition(0).compact(roll=True)
        topic.append(b"last", key=b"new")
    return directory


@pytest.fixture(scope="module")
def url(root: Path) -> Iterator[str]:
    """A real server over that directory; tests that change something make topics of their own."""
    command = [sys.executable, "-m", "seglog", "serve", str(root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        found = next(filter(None, (re.search(r"listening on (\S+)", line) for line in process.stdout)), None)
        assert found, "the server ended"
        yield found[1]
        process.terminate()
        process.communicate(timeout=HANG_SECONDS)


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Client]:
    with Client(url) as made:
        yield made


def new_topic(client: Client, records: int = 300, config: seglog.LogConfig | None = SMALL) -> RemoteTopic:
    """Make a topic of one partition that no other test has."""
    topic = client.create_topic(f"topic-{next(_numbers)}", config=config)
    fill(topic, records)
    return topic


def fill(topic: RemoteTopic, records: int, value: bytes = b"old") -> None:
    topic.append_batch(pa.table({"value": [value * 10] * records}), partition=0)


def planned(**options: Any) -> SeglogReader:
    return SeglogReader(ReadOptions.parse({name: str(value) for name, value in options.items()}))


def careful_and_careless(**options: Any) -> tuple[SeglogReader, SeglogReader]:
    """Return two readers: one that fails on loss and one that does not."""
    return planned(**options), planned(**options, failOnDataLoss="false")


def read(reader: SeglogReader, parts: list[Any] | None = None) -> Rows:
    """Return the rows of a plan (default: made now); the reader passes through pickle, as to an executor."""
    parts = reader.partitions() if parts is None else parts
    task: SeglogReader = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own
    return [row for part in parts for batch in task.read(part) for row in batch.to_pylist()]


def rows(**options: Any) -> Rows:
    return read(planned(**options))


def offsets(found: Rows) -> list[int]:
    return [row["offset"] for row in found]


def plan_of(path: Path | None = None, **options: Any) -> list[Any]:
    """Return the ranges of a plan, but for where the logs are."""
    return [replace(part, path="", extents=()) for part in explain_read(path, **options).ranges]


# --- the same as by path ----------------------------------------------------------------------------------------------


def test_spark_reads_the_same_rows_by_url_as_by_path(spark: SparkSession, root: Path, url: str) -> None:
    def all_rows(**place: str) -> list[Any]:
        options = {"includeHeaders": "true", "subscribe": "orders,bills,state"}
        frame = spark.read.format("seglog").options(**options, **place).load()
        return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))

    by_url = all_rows(url=url)
    assert by_url == all_rows(path=str(root))
    state = [row for row in by_url if row.topic == "state"]
    assert 0 < len(state) < 100
    assert any(row.value is None for row in state)
    assert [("n", b"198"), ("none", None)] in [row.headers for row in state]


SELECTIONS: list[dict[str, Any]] = [
    {"subscribe": "orders"},
    {"subscribe": "orders,state"},
    {"subscribePattern": "(orders|bill).*"},
    {"assign": '{"orders": [1], "state": [0]}'},
    {"subscribePattern": "nothing"},
]
BOUNDS: list[dict[str, Any]] = [
    {"startingTimestamp": MILLIS + 100, "endingTimestamp": MILLIS + 200},
    {"startingTimestamp": MILLIS * 2, "startingOffsetsByTimestampStrategy": "latest"},
    {"startingOffsetsByTimestamp": json.dumps({"orders": {"0": MILLIS, "1": MILLIS + 290}})},
    {"startingOffsets": '{"orders": {"0": 7, "1": -2}}', "endingOffsets": '{"orders": {"0": 70, "1": -1}}'},
    {"minPartitions": 40},
    {"maxRecordsPerPartition": 11},
    {"columns": "timestamp,offset,key"},
]


def test_plans_and_rows_are_those_of_the_path_whatever_is_selected(root: Path, url: str) -> None:
    for options in [*SELECTIONS, *({"subscribe": "orders", **bounds} for bounds in BOUNDS)]:
        assert plan_of(url=url, **options) == plan_of(root, **options), options
        assert rows(url=url, **options) == rows(path=root, **options), options


def test_bounds_leave_out_segments_by_url_as_by_path(root: Path, url: str) -> None:
    bounds = {"startingOffsets": '{"orders": {"0": 70, "1": 0}}', "subscribe": "orders"}
    by_url, by_path = explain_read(None, url=url, **bounds), explain_read(root, **bounds)
    assert by_url.figures == by_path.figures
    assert by_url.figures.segments_skipped > 0


def test_without_a_selection_all_topics_of_the_server_are_read(url: str, client: Client) -> None:
    client.topic("default").append(b"v")
    assert {row["topic"] for row in rows(url=url)} >= {"bills", "default", "orders", "state"}


def test_many_records_come_page_by_page_in_batches_as_spark_likes_them(url: str, client: Client) -> None:
    topic = new_topic(client, 0, None)
    values = [b"%d" % number for number in range(MANY)]
    topic.append_batch(pa.table({"value": values}))
    reader = planned(url=url, subscribe=topic.name, columns="value")
    (part,) = reader.partitions()
    batches = list(reader.read(part))
    assert max(batch.num_rows for batch in batches) == 10_000
    assert [value for batch in batches for value in batch.column("value").to_pylist()] == values


# --- a server that goes away ------------------------------------------------------------------------------------------


def test_a_task_goes_on_where_a_killed_server_is_started_anew(serve: Callable[..., Any]) -> None:
    server = serve()
    with Client(server.url) as client:
        name = new_topic(client, MANY, None).name
    reader = planned(url=server.url, subscribe=name, columns="offset")
    (part,) = reader.partitions()
    batches = iter(reader.read(part))
    found = next(batches).to_pylist()
    server.kill()
    server.start()
    found += [row for batch in batches for row in batch.to_pylist()]
    assert offsets(found) == list(range(MANY))


def test_a_server_that_is_gone_is_named_in_one_sentence(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_logs, "RETRIES", 1)
    parts = planned(url=url, subscribe="orders").partitions()
    gone = "http://127.0.0.1:1"  # nobody listens there
    message = rf"the connection to {gone} failed: .*is the server running\?"
    with pytest.raises(ConnectionFailed, match=message):
        read(planned(url=gone, subscribe="orders"), parts)
    with pytest.raises(ConnectionFailed, match=message):
        rows(url=gone)


# --- loss -------------------------------------------------------------------------------------------------------------


def test_a_truncate_and_new_records_between_plan_and_read_are_told(url: str, client: Client) -> None:
    topic = new_topic(client)
    careful, careless = careful_and_careless(url=url, subscribe=topic.name)
    parts = careful.partitions()
    topic.truncate(0, 50)
    fill(topic, 300, b"new")
    with pytest.raises(LogTruncated, match=rf"\({url}.*\): the log was truncated below offset.*failOnDataLoss"):
        read(careful, parts)
    kept = read(careless, parts)
    assert offsets(kept) == list(range(50))
    assert {row["value"] for row in kept} == {b"old" * 10}


def test_a_truncate_behind_what_was_planned_is_harmless(url: str, client: Client) -> None:
    topic = new_topic(client)
    reader = planned(url=url, subscribe=topic.name, endingOffsets=json.dumps({topic.name: {"0": 60}}))
    parts = reader.partitions()
    topic.truncate(0, 60)
    fill(topic, 300, b"new")
    assert offsets(read(reader, parts)) == list(range(60))


@pytest.mark.parametrize(("cut", "fail"), [(90_000, "true"), (90_000, "false"), (95_000, "true")])
def test_a_truncate_while_a_range_is_read_changes_nothing_of_the_read(
    url: str, client: Client, cut: int, fail: str
) -> None:
    topic, stop = new_topic(client, MANY, None), 95_000
    ending = json.dumps({topic.name: {"0": stop}})
    reader = planned(url=url, subscribe=topic.name, endingOffsets=ending, failOnDataLoss=fail)
    (part,) = reader.partitions()
    batches = iter(reader.read(part))
    found = next(batches).to_pylist()
    topic.truncate(0, cut)
    fill(topic, MANY - cut, b"new")
    found += [row for batch in batches for row in batch.to_pylist()]
    assert offsets(found) == list(range(stop))
    assert {row["value"] for row in found} == {b"old" * 10}


def test_what_expired_since_is_told_or_left_out(url: str, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    topic = new_topic(client)
    careful, careless = careful_and_careless(url=url, subscribe=topic.name)
    parts = careful.partitions()
    client.alter_topic(topic.name, retention=seglog.Retention(bytes=4096))
    topic.expire()
    lowest, end, _ = topic.bounds()[0]
    assert lowest > 0
    with pytest.raises(OffsetOutOfRange, match="expired before they were read"):
        read(careful, parts)
    with caplog.at_level(logging.WARNING, "seglog.spark"):
        assert offsets(read(careless, parts)) == list(range(lowest, end))
    assert "continuing with what exists" in caplog.text


def test_a_topic_that_was_deleted_since_is_told_or_left_out(url: str, client: Client) -> None:
    name = new_topic(client).name
    careful, careless = careful_and_careless(url=url, subscribe=name)
    parts = careful.partitions()
    client.delete_topic(name)
    with pytest.raises(LogNotFound, match=f"there is no log any more at {url}/topics/{name}/partitions/0"):
        read(careful, parts)
    assert read(careless, parts) == []
    client.create_topic(name)
    with pytest.raises(LogTruncated, match="another log is in its place"):
        read(careful, parts)
    assert read(careless, parts) == []


# --- streams ----------------------------------------------------------------------------------------------------------


class Query:
    """A streaming query as Spark runs one: offsets pass through JSON, tasks through pickle."""

    def __init__(self, **options: Any) -> None:
        texts = {"startingOffsets": "earliest", **{name: str(value) for name, value in options.items()}}
        self.reader = SeglogStreamReader(ReadOptions.parse(texts, "stream"))
        self.offset = json.loads(json.dumps(self.reader.initialOffset()))

    def batch(self) -> Rows:
        end = json.loads(json.dumps(self.reader.latestOffset(self.offset, self.reader.getDefaultReadLimit())))
        parts = [] if end == self.offset else self.reader.partitions(self.offset, end)
        task = pickle.loads(pickle.dumps(self.reader))  # noqa: S301 - our own
        self.offset = end
        return [row for part in parts for batch in task.read(part) for row in batch.to_pylist()]


def test_micro_batches_are_those_of_the_path_also_where_there_are_gaps(root: Path, url: str, client: Client) -> None:
    topic = new_topic(client)
    limits = {"subscribe": f"state,{topic.name}", "maxOffsetsPerTrigger": 70}
    by_url, by_path = Query(url=url, **limits), Query(path=root, **limits)
    found = by_url.batch()
    assert len(found) == 70
    assert found == by_path.batch()
    fill(topic, 200, b"more")
    while found:
        found = by_url.batch()
        assert found == by_path.batch()
    assert by_url.offset == by_path.offset
    by_url.reader.stop()
    by_path.reader.stop()


def test_a_stream_reads_new_topics_from_their_start_and_tells_of_lost_ones(url: str, client: Client) -> None:
    query = Query(url=url, subscribePattern="later.*|bills")
    assert len(query.batch()) == 300
    client.create_topic("later").append(b"v")
    assert [(row["topic"], row["offset"]) for row in query.batch()] == [("later", 0)]
    client.delete_topic("later")
    with pytest.raises(LogTruncated, match="partition 0 of topic 'later' is gone"):
        query.batch()
    query.reader.stop()


def test_a_stream_tells_of_a_truncate(url: str, client: Client) -> None:
    topic = new_topic(client)
    query = Query(url=url, subscribe=topic.name)
    assert len(query.batch()) == 300
    topic.truncate(0, 10)
    with pytest.raises(LogTruncated, match=r"truncated below offset 300; it ends at 10.*failOnDataLoss"):
        query.batch()
    query.reader.stop()


def test_a_query_goes_on_from_its_checkpoint_after_the_server_was_killed(
    spark: SparkSession, tmp_path: Path, serve: Callable[..., Any]
) -> None:
    server = serve()

    def run(**options: Any) -> list[int]:
        source = spark.readStream.format("seglog").option("url", server.url).option("startingOffsets", "earliest")
        frame: DataFrame = source.options(subscribe=topic.name, **options).load().select("partition", "offset")
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
        query.awaitTermination()
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]

    with Client(server.url) as client:
        topic = new_topic(client)
        assert run(maxOffsetsPerTrigger=200) == [200, 100]
        server.kill()
        server.start()
        fill(topic, 50)
        assert run() == [50]
    files = (tmp_path / "out").glob("*.parquet")
    assert sorted(row["offset"] for file in files for row in pa.parquet.read_table(file).to_pylist()) == [*range(350)]


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "nothing"}, r"option subscribe: there is no topic 'nothing' at http://127"),
        ({"assign": '{"orders": [2]}'}, "option assign: topic 'orders' has no partition 2, only 0 to 1"),
        ({"startingOffsets": '{"orders": {"0": 9999, "1": 0}}', "subscribe": "orders"}, "offset 9999 is outside"),
        ({"startingTimestamp": 2 * MILLIS, "subscribe": "orders"}, "option startingTimestamp: .* has no record of"),
    ],
)
def test_what_does_not_fit_the_server_is_refused_by_name(url: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        rows(url=url, **options)


def test_writing_to_a_url_is_refused_with_what_to_do_instead() -> None:
    for options in ({"url": "http://localhost"}, {"URL": "http://localhost", "path": "/log"}):
        with pytest.raises(InvalidArgument, match=r"option url: writing.*with path, or produce with seglog\.Client"):
            WriteOptions.parse(options)


def test_without_httpx_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(sys.modules, "seglog.spark.read.server_logs")
    with pytest.raises(MissingExtra, match=r"the client needs httpx: install seglog\[client\]"):
        rows(url="http://localhost:3000")


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_a_token_opens_its_topics_and_a_wrong_one_is_not_shown(
    spark: SparkSession,
    tmp_path: Path,
    serve: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rights = {"name": "spark", "sha256": hashlib.sha256(SECRET.encode()).hexdigest(), "rights": {"orders": ["read"]}}
    (tmp_path / "tokens.json").write_text(json.dumps({"tokens": [rights]}))
    for name in ("orders", "bills"):
        with Topic.create(tmp_path / "served" / name, partitions=1) as topic:
            topic.append(b"v")
    url = serve("--tokens", str(tmp_path / "tokens.json")).url

    with caplog.at_level(logging.DEBUG):
        assert {row["topic"] for row in rows(url=url, token=SECRET)} == {"orders"}
    assert SECRET not in caplog.text
    with pytest.raises(InvalidArgument, match="there is no topic 'bills'"):
        rows(url=url, token=SECRET, subscribe="bills")
    with pytest.raises(Unauthorized, match="a token is required"):
        rows(url=url)

    monkeypatch.setenv("SEGLOG_TOKEN", SECRET)
    source = SeglogDataSource({"url": url})
    reader = source.reader(source.schema())
    monkeypatch.delenv("SEGLOG_TOKEN")  # the driver's goes to the tasks
    assert isinstance(reader, SeglogReader)
    assert len(read(reader)) == 1

    frame = spark.read.format("seglog").option("url", url).option("token", "wrong-secret").load()
    with pytest.raises(Exception, match="the server does not know this token") as caught:
        frame.collect()
    assert "Unauthorized" in str(caught.value)
    assert "wrong-secret" not in str(caught.value)
    assert "wrong-secret" not in frame._jdf.queryExecution().toString()
