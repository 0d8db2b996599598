"""`seglog serve` with options of the Kafka listener that do not fit together: it names them, and does not start."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KAFKA = ("--kafka", "127.0.0.1:0")


def refused(root: Path, *options: str) -> str:
    """Start a server that must end at once; return what it says."""
    command = [sys.executable, "-m", "seglog", "serve", str(root), "--port", "0", *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    return ended.stderr


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([*KAFKA, "--kafka-partitions", "5000"], "--kafka-partitions is 5000; it must be 0 to 1000; --partitions"),
        ([*KAFKA, "--kafka-partitions", "8", "--partitions", "7"], "--kafka-partitions is 8; it must be 0 to 7;"),
        ([*KAFKA, "--kafka-partitions", "-1"], "--kafka-partitions is -1; it must be 0 to 1000;"),
        (
            ["--kafka-partitions", "3"],
            "--kafka-partitions has no effect without a Kafka listener; give --kafka HOST:PORT, too",
        ),
        (
            ["--kafka-advertise", "broker:9092"],
            "--kafka-advertise has no effect without a Kafka listener; give --kafka HOST:PORT, too",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused_by_name(tmp_path: Path, options: list[str], text: str) -> None:
    assert re.search(text, refused(tmp_path / "root", *options))
    assert not (tmp_path / "root").exists()


def test_a_topic_that_is_created_by_use_may_have_the_most_partitions(serve: Callable[..., Any]) -> None:
    server = serve(*KAFKA, "--kafka-partitions", "7", "--partitions", "7")
    assert any("Kafka clients connect to" in line for line in server.said)


def test_one_address_for_both_listeners_is_refused_with_both_options(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    said = refused(tmp_path / "root", "--port", port, "--kafka", f"127.0.0.1:{port}")
    assert re.search(rf"cannot listen on 127.0.0.1 port {port}: .*; choose another --kafka or --port", said)
