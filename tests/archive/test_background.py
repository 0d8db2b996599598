"""Archiving beside a writer: in its process, in a server, and as a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import urllib.request
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import seglog
from seglog import ArchiveFenced, Archiver
from seglog.archive.urls import store_at
from seglog.cli import main
from tests.archive.conftest import filled
from tests.archive.faulty_store import FaultyStore
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Served

NEVER = 3600.0


def test_wait_returns_once_the_archive_has_the_record(place: str, tmp_path: Path) -> None:
    with filled(tmp_path / "log", 5) as log, Archiver(tmp_path / "log", place).background(NEVER) as archive:
        for number in range(5, 20):
            log.append(b"value %d" % number)
            archive.wait(timeout=HANG_SECONDS)
            with seglog.open(place, mode="r") as archived:
                assert archived.next_offset == number + 1


def test_threads_that_wait_share_a_round(place: str, tmp_path: Path) -> None:
    with filled(tmp_path / "log", 5) as log, Archiver(tmp_path / "log", place).background(NEVER) as archive:
        first = archive.wait(timeout=HANG_SECONDS)

        def append() -> None:
            for _ in range(5):
                log.append(b"x")
                archive.wait(timeout=HANG_SECONDS)

        threads = [threading.Thread(target=append) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert archive.commit - first < 80
        with seglog.open(place, mode="r") as archived:
            assert archived.next_offset == 85


def test_closing_archives_the_rest(place: str, tmp_path: Path) -> None:
    with filled(tmp_path / "log", 5) as log, Archiver(tmp_path / "log", place).background(NEVER) as archive:
        archive.wait(timeout=HANG_SECONDS)
        log.append(b"last")
    assert seglog.open(place, mode="r").next_offset == 6
    with pytest.raises(seglog.LogClosed):
        archive.wait()


def test_callers_wait_while_the_store_is_away_and_none_is_told_otherwise(place: str, tmp_path: Path) -> None:
    said: list[str] = []
    filled(tmp_path / "log", 5).close()
    store = FaultyStore(store_at(place), "refused", 3)
    with Archiver(tmp_path / "log", store).background(NEVER, said.append) as archive:
        archive.wait(timeout=HANG_SECONDS)
        assert ["connection broke" in text for text in said] == [True]
    assert seglog.open(place, mode="r").next_offset == 5


def test_a_replaced_archiver_acknowledges_nothing_more(place: str, tmp_path: Path) -> None:
    said: list[str] = []
    with filled(tmp_path / "log", 5) as log:
        with Archiver(tmp_path / "log", place).background(NEVER, said.append) as archive:
            archive.wait(timeout=HANG_SECONDS)
            seglog.restore(place, tmp_path / "new")
            with Archiver(tmp_path / "new", place) as new:
                new.step()
                log.append(b"not archived")
                with pytest.raises(ArchiveFenced):
                    archive.wait(timeout=HANG_SECONDS)
                with pytest.raises(ArchiveFenced):
                    archive.wait(timeout=HANG_SECONDS)
        assert "another writer" in said[0]
    assert seglog.open(place, mode="r").next_offset == 5


def test_a_server_answers_archived_once_the_archive_has_the_record(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    url = f"file://{tmp_path}/archive"
    served = serve("--archive", url, "--archive-interval", "1h")
    with seglog.Client(served.url) as client:
        topic = client.topic("default")
        for number in range(3):
            assert topic.append(b"value %d" % number, ack="archived") == (0, number)
            with seglog.Broker(url, mode="r") as archived:
                assert archived.topic("default").partition(0).read(number).value == b"value %d" % number
        topic.append_batch(pa.table({"value": [b"batched"]}), ack="archived")
        with seglog.Broker(url, mode="r") as archived:
            assert archived.topic("default").partition(0).next_offset == 4
        topic.append(b"appended only")
    with urllib.request.urlopen(f"{served.url}/metrics", timeout=HANG_SECONDS) as answer:  # noqa: S310 - our own server
        assert b"seglog_archive_commit" in answer.read()
    served.stop()
    with seglog.Broker(url, mode="r") as archived:
        assert archived.topic("default").partition(0).next_offset == 5


def test_a_server_without_an_archive_refuses_archived_and_appends_nothing(serve: Callable[..., Served]) -> None:
    with seglog.Client(serve().url) as client:
        with pytest.raises(seglog.SeglogError, match="has no archive"):
            client.topic("default").append(b"x", ack="archived")
        assert client.topic("default").append(b"x") == (0, 0)


def test_the_command_archives_beside_a_writer_until_it_is_stopped(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/archive"
    command = [sys.executable, "-m", "seglog", "archive", str(tmp_path / "log"), url, "--interval", "20ms"]
    with filled(tmp_path / "log", 5) as log:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("commit 2: 1 log, 5 records")
            for number in range(100):
                log.append(b"value %d" % number)
            process.send_signal(signal.SIGTERM)
            out, error = process.communicate(timeout=HANG_SECONDS)
            assert (process.returncode, error) == (0, "")
            assert out.startswith("stopped at commit ")
        assert list(seglog.open(url, mode="r").scan()) == list(log.scan())


def test_the_commands_that_read_take_an_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"file://{tmp_path}/archive"
    with seglog.Broker(tmp_path / "shop") as broker:
        for number in range(4):
            (broker.topic("orders") if number else broker.create_topic("orders", partitions=2)).append(
                b"value %d" % number, partition=number % 2
            )
    for words, expected in (
        (["archive", str(tmp_path / "shop"), url, "--once"], "3 logs, 4 records"),
        (["verify", url], "3 intact, 0 damaged; 4 records readable"),
        (["read", f"{url}/orders"], "value 3"),
        (["read", f"{url}/orders/1", "--start", "-1"], "value 3"),
        (["info", f"{url}/orders/0"], "offsets   0 … 1"),
        (["topics", "list", url], "orders"),
        (["restore", url, str(tmp_path / "back")], "3 logs, 4 records"),
    ):
        assert main(words) == 0, words
        assert expected in capsys.readouterr().out
