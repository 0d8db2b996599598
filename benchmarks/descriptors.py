"""`python -m benchmarks.descriptors`: thousands of partitions in one process with 1,024 descriptors.

Prints for each step its duration, and the process's descriptors and memory after it. These are no ratios, so they are
not part of `make bench`.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import seglog
from seglog.client import Client

DESCRIPTORS = 1024
PARTITIONS_OF_A_TOPIC = 100


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.descriptors")
    parser.add_argument("--partitions", type=int, default=10_000, help="total number; a multiple of 100")
    partitions = parser.parse_args().partitions
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    print(f"{partitions} partitions, {DESCRIPTORS} descriptors")
    print(f"{'step':28}{'seconds':>9}{'open':>7}{'MiB':>7}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "shop"
        names = [f"t{number}" for number in range(partitions // PARTITIONS_OF_A_TOPIC)]
        _by_a_broker(root, names)
        _by_a_server(root, names)


def _by_a_broker(root: Path, names: list[str]) -> None:
    broker = seglog.Broker(root)

    def create() -> None:
        for name in names:
            broker.create_topic(name, partitions=PARTITIONS_OF_A_TOPIC)

    def append() -> None:
        for name in names:
            for number in range(PARTITIONS_OF_A_TOPIC):
                broker.topic(name).append(b"value", partition=number)

    def read() -> None:
        for name in names:
            for number in range(PARTITIONS_OF_A_TOPIC):
                assert broker.topic(name).partition(number).read(0).value == b"value"

    _step("create", create)
    _step("append to each", append)
    _step("append to each, again", append)
    _step("read from each", read)
    assert not broker.poisoned
    _step("close", broker.close)
    broker = seglog.Broker(root)
    _step("open again", lambda: [broker.topic(name) for name in names])
    _step("read from each", read)
    broker.close()


def _by_a_server(root: Path, names: list[str]) -> None:
    command = [sys.executable, "-m", "seglog", "serve", str(root), "--port", "0"]
    started = time.monotonic()
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert server.stdout is not None
        line = next(line for line in server.stdout if "listening on" in line)
        with Client(line.split("listening on ")[1].split()[0]) as client:

            def append() -> None:
                for name in names:
                    topic = client.topic(name)
                    for number in range(PARTITIONS_OF_A_TOPIC):
                        topic.append(b"value", partition=number)

            _report("serve: start", time.monotonic() - started, server.pid)
            _step("serve: append to each", append, server.pid)
            _step("serve: append to each, again", append, server.pid)
    finally:
        server.terminate()
        server.wait()


def _step(name: str, call: Callable[[], object], pid: int | None = None) -> None:
    started = time.monotonic()
    call()
    _report(name, time.monotonic() - started, os.getpid() if pid is None else pid)


def _report(name: str, seconds: float, pid: int) -> None:
    status = Path(f"/proc/{pid}/status").read_text()
    memory = int(status.split("VmRSS:")[1].split()[0]) // 1024
    print(f"{name:28}{seconds:9.2f}{len(os.listdir(f'/proc/{pid}/fd')):7}{memory:7}", flush=True)  # noqa: PTH208 - a count


if __name__ == "__main__":
    main()
