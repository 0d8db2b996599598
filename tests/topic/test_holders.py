"""A lock that another process holds: the error names the process, and not one that has ended."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import seglog
from seglog import Broker, Topic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLD = """
import sys, seglog
kind, path = sys.argv[1:]
held = {"log": seglog.open, "topic": seglog.Topic.open, "broker": seglog.Broker}[kind](path)
print("held", flush=True)
sys.stdin.read()
held.close()
"""


@contextmanager
def holder(kind: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has a log, a topic or a broker open for writing until its input ends."""
    command = [sys.executable, "-c", HOLD, kind, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with Broker(tmp_path / "shop") as broker:
        broker.create_topic("orders", partitions=2)
    return tmp_path / "shop"


def test_the_process_that_has_a_log_open_is_named(shop: Path) -> None:
    partition = shop / "orders" / "1"
    with holder("log", partition) as process:
        for opened, place in ((seglog.open, partition), (Topic.open, shop / "orders"), (Broker, shop)):
            with pytest.raises(seglog.LogLocked, match=f"by process {process.pid} \\(-c\\)"):
                opened(place)
        with pytest.raises(seglog.LogLocked, match=f"by process {process.pid}"):
            seglog.repair(partition)
    Broker(shop).close()


def test_the_process_that_has_all_around_a_log_open_is_named(shop: Path) -> None:
    with holder("broker", shop) as process:
        for opened, place in ((seglog.open, shop / "orders" / "1"), (Topic.open, shop / "orders"), (Broker, shop)):
            with pytest.raises(seglog.LogLocked, match=f"by process {process.pid} "):
                opened(place)


def test_a_process_that_had_it_before_is_not_named(shop: Path) -> None:
    Topic.open(shop / "orders").close()  # of this process, which goes on
    with (
        holder("log", shop / "orders" / "1") as process,
        pytest.raises(seglog.LogLocked, match=f"by process {process.pid} "),
    ):
        Topic.open(shop / "orders")


def test_a_process_that_was_killed_is_not_named(shop: Path) -> None:
    log = shop / "orders" / "0"
    with holder("log", log) as process:
        process.kill()
    left = json.loads((log / "LOCK").read_bytes())
    assert left == {"pid": process.pid, "host": platform.node(), "command": "-c"}
    with seglog.open(log):
        (log / "LOCK").write_text(json.dumps(left))  # as if this process could not write its own
        with pytest.raises(seglog.LogLocked, match="here or in another process"):
            seglog.open(log)


@pytest.mark.parametrize("content", ["", "null", "[1]", '{"pid": "x"}', '{"pid": 1e999, "host": "h", "command": "c"}'])
def test_a_lock_whose_file_says_nothing_sensible_names_no_process(tmp_path: Path, content: str) -> None:
    with seglog.open(tmp_path / "log"):
        (tmp_path / "log" / "LOCK").write_text(content)
        with pytest.raises(seglog.LogLocked, match="here or in another process"):
            seglog.open(tmp_path / "log")


def test_the_process_on_another_machine_is_named_with_its_host(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log"):
        values = {"pid": 7, "host": "web-1\x1b", "command": "seglog serve"}
        (tmp_path / "log" / "LOCK").write_text(json.dumps(values))
        with pytest.raises(seglog.LogLocked, match=r"by process 7 \(seglog serve\) on web-1\\x1b;"):
            seglog.open(tmp_path / "log")


def test_this_process_is_named_as_such(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log"), pytest.raises(seglog.LogLocked, match=f"by this process \\({os.getpid()}\\)"):
        seglog.open(tmp_path / "log")


def test_who_runs_a_cell_of_a_notebook_twice_is_told_to_close_what_the_first_run_opened(tmp_path: Path) -> None:
    log = seglog.open(tmp_path / "log")
    with pytest.raises(seglog.LogLocked, match="use the object that has it, or close that one first"):
        seglog.open(tmp_path / "log")
    log.close()
    seglog.open(tmp_path / "log").close()
