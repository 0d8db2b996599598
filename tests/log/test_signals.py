"""Real processes whose signal handler closes the log and exits, as services do: they end, and lose nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# One process forks many; each opens its log again and gets SIGTERM at a random moment of its work.
ENDINGS = """
import faulthandler, os, random, signal, sys, threading, time, seglog
from seglog import LogConfig
root, seed, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
random.seed(seed)
CONFIGS = {
    "flushed": LogConfig(flush_records=1),
    "flushed by 100": LogConfig(flush_records=100),
    "small segments": LogConfig(segment_bytes=4096),
    "buffered": LogConfig(buffer_bytes=65536),
    "buffered, small segments": LogConfig(buffer_bytes=4096, segment_bytes=8192),
    "by interval": LogConfig(flush_interval=0.002, buffer_bytes=4096),
    "by all means": LogConfig(flush_records=100, segment_bytes=2048, buffer_bytes=1000),
}

def work(path, config, how, ready):
    log = seglog.open(path, config)
    signals = 0
    def handle(*_):
        nonlocal signals
        signals += 1
        if signals > 5:  # a storm ends: Python lets signals kill a process that is shutting down
            signal.setitimer(signal.ITIMER_REAL, 0)
        log.close()
        if how != "close":
            sys.exit(0)
    signal.signal(signal.SIGTERM, handle)
    def others():
        try:
            while True:
                log.append(b"other")
        except seglog.LogClosed:
            pass
    if how == "threads":
        for _ in range(2):
            threading.Thread(target=others).start()
    if how == "storm":
        signal.signal(signal.SIGALRM, handle)
    acks = os.open(path + ".acks", os.O_CREAT | os.O_WRONLY)
    os.write(ready, b"x")
    number = 0
    try:
        while True:
            offset = log.append(b"%d" % number)
            os.pwrite(acks, b"%d %d" % (offset, number), 0)
            number += 1
            if number % 50 == 0:
                log.sync()
            if number % 77 == 0:
                log.read(random.randrange(number))
            if number == 10 and how == "storm":
                signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0002)
    except seglog.LogClosed:
        os._exit(0)

def ended(child):
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, signal.SIGABRT)  # its stack is printed
    os.waitpid(child, 0)
    return "hangs"

def check(path):
    with open(path + ".acks") as file:
        acked = file.read().split()
    log = seglog.open(path)
    assert not log.recovery.events, log.recovery.events
    values = [record.value for record in log.scan()]
    mine = [value for value in values if value != b"other"]
    assert mine == [b"%d" % number for number in range(len(mine))], "a record was invented, or lost"
    if acked:
        offset, number = map(int, acked)
        assert values[offset] == b"%d" % number, (offset, number, len(values))
        assert len(mine) - number - 1 in (0, 1), (number, len(mine))
    assert log.verify().ok
    log.close()

faulthandler.enable()
for run in range(runs):
    name = random.choice(list(CONFIGS))
    how = random.choice(["exit", "close", "threads", "storm"])
    path = f"{root}/{run}"
    seen, ready = os.pipe()
    child = os.fork()
    if child == 0:
        work(path, CONFIGS[name], how, ready)
    os.read(seen, 1)
    os.close(seen), os.close(ready)
    time.sleep(random.random() * 0.02)
    os.kill(child, signal.SIGTERM)
    code = ended(child)
    assert code == 0 or (how == "storm" and code in (-signal.SIGALRM, -signal.SIGTERM)), f"{name}, {how}: {code}"
    check(path)
print(runs, "ended")
"""


@pytest.fixture
def ends(script: Any, tmp_path: Path) -> Callable[[int, int], None]:
    def run(seed: int, runs: int) -> None:
        (tmp_path / "logs").mkdir()
        assert script(ENDINGS, tmp_path / "logs", seed, runs) == f"{runs} ended\n"

    return run


def test_a_service_that_closes_its_log_and_exits_on_sigterm_loses_nothing(ends: Any) -> None:
    ends(1, 25)


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_services_told_to_end_at_random_moments_lose_nothing(ends: Any, seed: int) -> None:
    ends(seed, 120)
