"""Reads of several pages with every change of the log between two of them; see tests/snapshots.py."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import seglog
from seglog.client import flows
from seglog.client.requests import topic_calls
from seglog.errors import CompactionAborted
from seglog.spark.read.options import ReadOptions
from seglog.spark.read.reader import SeglogReader
from seglog.spark.read.scan import RangeScan
from tests.server.conftest import Servers
from tests.snapshots import CONFIG, RECORDS, check, read_beside
from tests.waiting import until

STEPS = (1, 7, 20)
BY_HAND = replace(CONFIG, retention=replace(CONFIG.retention, min_dirty_ratio=1))  # the server's cleaner does nothing


def update(topic: Any, records: int = 10) -> None:
    rows = [b"k%d" % (number % 10) for number in range(records)]
    topic.append_batch(pa.table({"key": rows, "value": [b"v" * 200] * records}))


def compact(topic: Any) -> None:
    """Compact it, if need be after the server has: that is what runs then."""

    def is_done() -> bool:
        with suppress(CompactionAborted):
            topic.compact()
            return True
        return False

    until(is_done)


def superseded(topic: Any) -> None:
    update(topic)
    compact(topic)


def cut(topic: Any) -> None:
    topic.truncate(0, topic.bounds()[0].lowest_offset + 5)
    update(topic, 30)


def deleted_before(topic: Any) -> None:
    update(topic)
    topic.delete_before(0, topic.bounds()[0].next_offset - 3)


CHANGES: dict[str, Any] = {
    "appended": update,
    "compacted": compact,
    "superseded and compacted": superseded,
    "cut": cut,
    "deleted before": deleted_before,
}


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    monkeypatch.setattr(flows, "PAGE_RECORDS", 3)


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory):
    """A server that keeps no view."""
    servers = Servers(tmp_path_factory.mktemp)
    yield servers(limits={"snapshot_seconds": 1e-9})
    servers.end()


def filled(client):
    topic = client.create_topic(f"snapshots-{uuid4().hex}", partitions=1, config=BY_HAND)
    update(topic, RECORDS // 2)
    compact(topic)
    update(topic, RECORDS // 2)
    return topic, [(record.offset, record.key) for record in topic.records(0)]


def scanned(topic):
    return ((record.offset, record.key) for record in topic.records(0))


def streamed(topic):
    for batch in pa.RecordBatchReader.from_stream(topic):
        yield from zip(batch["offset"].to_pylist(), batch["key"].to_pylist(), strict=True)


READS = {"records": scanned, "arrow stream": streamed}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("read", READS)
def test_a_read_of_several_pages_returns_the_topic_as_it_was_at_the_first(shared, read, change):
    with seglog.Client(shared.url) as client:
        for steps in STEPS:
            topic, was = filled(client)
            found, expired = read_beside(READS[read](topic), steps, lambda topic=topic: CHANGES[change](topic))
            assert not expired
            check(found, was, expired=False)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("read", READS)
def test_a_read_whose_view_the_server_dropped_goes_on_only_if_nothing_has_changed(forgetful, read, change):
    with seglog.Client(forgetful.url) as client:
        expirations = []
        for steps in STEPS:
            topic, was = filled(client)
            found, expired = read_beside(READS[read](topic), steps, lambda topic=topic: CHANGES[change](topic))
            check(found, was, expired=expired)
            expirations.append(expired)
        assert any(expirations) == (change != "appended")


@pytest.mark.parametrize("change", CHANGES)
def test_a_client_of_an_older_server_notices_that_the_range_has_changed(shared, change, monkeypatch):
    monkeypatch.setattr(topic_calls, "SNAPSHOT", "x-unknown-to-it")
    with seglog.Client(shared.url) as client:
        expirations = []
        for steps in STEPS:
            topic, was = filled(client)
            found, expired = read_beside(scanned(topic), steps, lambda topic=topic: CHANGES[change](topic))
            check(found, was, expired=expired)
            expirations.append(expired)
        assert any(expirations) == (change != "appended")


def test_a_plan_of_which_the_first_offsets_were_deleted_reads_the_others_as_they_were_planned(
    forgetful, monkeypatch, caplog
):
    monkeypatch.setattr("seglog.spark.read.plan.TASKS", 1)
    monkeypatch.setattr(RangeScan, "_read", lambda _: pytest.fail("this reads what is there now"))
    with seglog.Client(forgetful.url) as client:
        topic, was = filled(client)
        options = {"url": forgetful.url, "subscribe": topic.name, "failondataloss": "false"}
        reader = SeglogReader(ReadOptions.parse(options))
        [partition] = reader.partitions()
        topic.delete_before(0, 30)
        found = [one for batch in reader.read(partition) for one in batch["offset"].to_pylist()]
        assert found == [offset for offset, _ in was if offset >= 30]
    assert [record.levelname for record in caplog.records if "30" in record.message] == ["WARNING"]


def pages_of_an_older_client(http, name, stop):
    start = 0
    while start < stop:
        query = {"start": start, "stop": stop, "max_records": 3}
        answer = http.get(f"/topics/{name}/partitions/0/records", params=query)
        if answer.status_code == 410:
            raise seglog.SnapshotExpired(start, stop)
        assert answer.status_code == 200, answer.text
        for line in answer.text.splitlines():
            record = json.loads(line)
            yield record["offset"], record["key"].encode()
        start = int(answer.headers["Seglog-Next-Offset"])


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "dropped"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_client_that_names_no_snapshot_gets_the_topic_as_it_was_or_a_refusal(shared, forgetful, change, kept):
    server = shared if kept else forgetful
    with seglog.Client(server.url) as client, server.client() as http:
        for steps in STEPS:
            topic, was = filled(client)
            read = pages_of_an_older_client(http, topic.name, RECORDS)
            found, expired = read_beside(read, steps, lambda topic=topic: CHANGES[change](topic))
            assert not (kept and expired) or change == "cut", "what was cut off is not shown to a new read"
            check(found, was, expired=expired)
            if expired and change == "compacted":  # and the same read begins again
                assert list(pages_of_an_older_client(http, topic.name, RECORDS))


def test_metrics_show_how_much_is_kept_for_a_read(http, shared):
    with seglog.Client(shared.url) as client:
        topic, was = filled(client)
        pages = topic.pages(0)
        next(pages)
        superseded(topic)
        told = dict(
            line.split() for line in http.get("/metrics").text.splitlines() if line.startswith("seglog_snapshot")
        )
        assert float(told["seglog_snapshots"]) >= 1
        assert float(told["seglog_snapshot_bytes"]) > 0
        assert sum(batch.num_rows for page in pages for batch in page.batches) == len(was) - 3


def test_a_snapshot_of_no_sense_is_refused(http, shared):
    with seglog.Client(shared.url) as client:
        topic, _ = filled(client)
        for text in ("a.1..1.f", "0.0.-.0.0", "new2", "ffffffffffffffff.1.1.99999999999999999999.0"):
            answer = http.get(
                f"/topics/{topic.name}/partitions/0/records",
                params={"start": 0, "stop": 40},
                headers={"Seglog-Snapshot": text},
            )
            assert answer.status_code in (400, 410), (text, answer.text)
