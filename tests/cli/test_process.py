"""The program as a process: what only a real one shows (few: each costs a start)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import seglog
from tests.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ALL_BYTES = bytes(range(256)) * 300
PROGRAM = [sys.executable, "-m", "seglog"]


def run(*words: object, stdin: bytes = b"", **more: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*PROGRAM, *map(str, words)], input=stdin, capture_output=True, timeout=HANG_SECONDS, check=False, **more
    )


@pytest.fixture
def start() -> Iterator[Callable[..., Any]]:
    """Start the program with pipes to talk to; whatever a test leaves running or open is ended."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*words: object) -> Any:
        pipe = subprocess.PIPE
        started.append(subprocess.Popen([*PROGRAM, *map(str, words)], stdin=pipe, stdout=pipe, stderr=pipe))
        return started[-1]

    yield begin
    for program in started:
        program.kill()
        program.wait(HANG_SECONDS)
        for stream in (program.stdin, program.stdout, program.stderr):
            if stream is not None:
                stream.close()


def test_all_bytes_go_in_and_come_out(path: Any) -> None:
    assert run("append", path, stdin=ALL_BYTES).stdout == b"0\n"
    assert run("read", path, 0).stdout == ALL_BYTES


def test_an_argument_may_hold_any_bytes(path: Any) -> None:
    words = [*PROGRAM, "append", str(path), b"\xff\xfe", "--key", b"\x80"]
    assert subprocess.run(words, capture_output=True, timeout=HANG_SECONDS, check=False).returncode == 0
    with seglog.open(path, mode="r") as log:
        assert log.read(0)[2:4] == (b"\x80", b"\xff\xfe")


def test_help_loads_nothing_heavy_and_nothing_that_a_command_runs_with() -> None:
    code = (
        "import sys; from seglog.cli import main; main(['--help']);"
        "below = {'log', 'topic', 'segment', 'storage', 'keyed', 'server', 'client', 'spark', 'demo'};"
        "bad = {'pyarrow', 'numpy', 'numba', 'tqdm', *(f'seglog.{name}' for name in below)} & set(sys.modules);"
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert run("--help").returncode == 0


def test_appending_and_reading_raw_load_neither_arrow_nor_numba(path: Any) -> None:
    code = (
        "import sys; from seglog.cli import main; path = sys.argv[1];"
        "codes = [main(words) for words in (['append', path, 'v'], ['read', path, '0'], ['info', path])];"
        "bad = {'pyarrow', 'numba', 'tqdm'} & set(sys.modules); sys.exit(f'{bad}' if bad or any(codes) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_reader_that_had_enough_ends_the_program_quietly(path: Any, start: Callable[..., Any]) -> None:
    with seglog.open(path) as log:
        for _ in range(3000):
            log.append(b"x" * 100)
    for words in (
        ["read", str(path)],
        ["export", str(path), "-"],
        ["read", str(path), "--format", "parquet"],
    ):
        program = start(*words)
        program.stdin.close()
        program.stdout.read(10)
        program.stdout.close()
        assert program.stderr.read() == b"", words
        assert program.wait(HANG_SECONDS) == 0


def test_a_listener_that_left_does_not_stop_what_comes_in(path: Any, start: Callable[..., Any]) -> None:
    program = start("append", path, "--lines")
    program.stdout.close()
    program.stdin.write(b"line\n" * 5000)
    program.stdin.close()
    assert program.stderr.read() == b""
    assert program.wait(HANG_SECONDS) == 0
    with seglog.open(path, mode="r") as log:
        assert log.next_offset == 5000


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")  # noqa: PTH110
def test_a_full_device_is_said_once(path: Any) -> None:
    run("append", path, "v")
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(
            [*PROGRAM, "read", str(path)], stdout=full, stderr=subprocess.PIPE, check=False, timeout=HANG_SECONDS
        )
    assert done.returncode == 6
    assert done.stderr.count(b"\n") == 1
    assert b"No space left" in done.stderr


def test_an_error_is_one_line_or_one_json_object(path: Any) -> None:
    done = run("read", path, 0)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (3, b"", 1)
    assert done.stderr.startswith(b"seglog: ")
    told = json.loads(run("read", path, 0, "--json").stderr)
    assert told["error"] == "LogNotFound"
    assert b"Traceback" in run("read", path, 0, "--traceback").stderr


def test_a_followed_log_shows_records_as_they_come_until_it_is_interrupted(
    path: Any, start: Callable[..., Any]
) -> None:
    with seglog.open(path) as log:
        log.append(b"one")
        program = start("tail", path, "-f")
        assert program.stdout.readline() == b"one\n"
        for value in (b"two", b"three"):
            log.append(value)
            assert program.stdout.readline() == value + b"\n"
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=HANG_SECONDS)
    assert (program.returncode, out, err) == (130, b"", b"")


def interrupted(program: Any) -> bool:
    """Interrupt a program that reads its input; whether it ends. A signal just before it begins to wait is not seen."""
    program.send_signal(signal.SIGINT)
    try:
        program.wait(5)
    except subprocess.TimeoutExpired:
        return False
    return True


def test_an_interrupted_append_says_so_and_keeps_what_went_in(path: Any, start: Callable[..., Any]) -> None:
    program = start("append", path, "--lines")
    program.stdin.write(b"one\n")
    program.stdin.flush()
    assert program.stdout.readline() == b"0\n"
    until(lambda: interrupted(program))
    _, err = program.communicate(timeout=HANG_SECONDS)
    assert program.returncode == 130
    assert err == b"seglog: interrupted; 1 record appended before that: offsets 0 to 0\n"
    assert run("read", path, 0).stdout == b"one"


def test_what_must_be_read_from_its_end_is_refused_from_a_pipe(path: Any) -> None:
    for kind, data in (("parquet", b"PAR1"), ("arrow", b"ARROW1")):
        done = run("import", path, "-", "--format", kind, stdin=data)
        assert done.returncode == 2
        assert b"index at the end" in done.stderr
        assert not path.exists()


def test_an_ascii_terminal_gets_ascii(path: Any) -> None:
    run("append", path, "v")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = run("info", path, "--segments", env=environment)
    assert shown.returncode == 0, shown
    assert shown.stdout.isascii()


def test_what_a_consumer_could_not_print_comes_again(tmp_path: Any, start: Callable[..., Any]) -> None:
    with seglog.Broker(tmp_path / "shop") as broker:
        topic = broker.create_topic("orders")
        for number in range(1000):
            topic.append(b"%04d" % number + b"x" * 1000)
    program = start("consume", tmp_path / "shop" / "orders", "--group", "billing")
    program.stdin.close()
    program.stdout.read(10)
    program.stdout.close()
    assert program.stderr.read() == b""
    assert program.wait(HANG_SECONDS) == 0
    again = run("consume", tmp_path / "shop" / "orders", "--group", "billing", "-n", 1)
    assert again.stdout.startswith(b"0000x")


def test_an_interrupted_consumer_leaves_its_group_and_keeps_what_it_printed(
    tmp_path: Any, start: Callable[..., Any]
) -> None:
    with seglog.Broker(tmp_path / "shop") as broker:
        broker.create_topic("orders").append(b"one")
    program = start("consume", tmp_path / "shop" / "orders", "--group", "billing", "--follow")
    assert program.stdout.readline() == b"one\n"
    with seglog.Broker(tmp_path / "shop", mode="r") as broker:
        until(lambda: broker.groups.describe("billing").committed == {"orders": {0: 1}})
    program.send_signal(signal.SIGINT)
    assert program.communicate(timeout=HANG_SECONDS) == (b"", b"")
    assert program.returncode == 130
    with seglog.Broker(tmp_path / "shop", mode="r") as broker:
        state = broker.groups.describe("billing")
        assert (state.committed, state.members) == ({"orders": {0: 1}}, ())


def test_a_command_that_reads_arrow_does_not_import_pandas(path: Any, tmp_path: Any) -> None:
    run("append", path, "v", "--key", "k")
    (tmp_path / "pandas.py").write_text("raise SystemExit('pandas was imported')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = run("export", path, tmp_path / "out.parquet", env=environment)
    assert done.returncode == 0, done.stderr
    assert pq.read_table(tmp_path / "out.parquet")["key"].to_pylist() == [b"k"]
