"""Where the time of one append over HTTP goes: the client, `seglog serve`, and paths that do less.

"ours" is `seglog serve`, called through a plain socket with one request after another; the other side is the same call
of a server of `light_servers`, or of our Python client, or an append in the same process. So a ratio of 0.5 is a path
that takes half of the time. `python -m benchmarks.http_paths` draws where `seglog serve` spends it (py-spy).
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import seglog
from benchmarks.history import HISTORY
from benchmarks.light_servers import PATHS
from benchmarks.over_http import serving
from benchmarks.peers.tools import skip
from benchmarks.scale import Scale
from benchmarks.timing import Figure, Side, in_rounds, stopwatch
from seglog.client.client import Client

VALUE = b"x" * 100
TITLES = {
    "asgi": "uvicorn, an application of one function",
    "http": "httptools' parser, without ASGI",
    "frame": "no HTTP: a length and the value",
}
FLAME = HISTORY.parent / "http-append-flame.svg"
FLAME_SECONDS = 10
TITLE = "seglog serve, appends of 100 B one after another"  # instead of the command, which names directories


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure one append after another on one connection, unsynced, on every path."""
    calls = scale.calls // 20
    with ExitStack() as stack:
        url = stack.enter_context(serving(directory / "served"))
        client = stack.enter_context(Client(url))
        log = stack.enter_context(seglog.open(directory / "log"))
        topic = client.create_topic("one")
        others: dict[str, Side] = {}
        for path in PATHS:
            port = stack.enter_context(_light(path, directory / path))
            others[TITLES[path]] = _on_wire(port, _frame() if path == "frame" else _request("/"), calls)
        others["seglog.client.Client"] = _timed(lambda: topic.append(VALUE), calls)
        others["Log.append in the process"] = _timed(lambda: log.append(VALUE), calls)
        ours = _on_wire(int(url.rpartition(":")[2]), _request("/topics/one/records"), calls)
        mine, *theirs = in_rounds([ours, *others.values()], repeats=scale.repeats)
        for name, taken in zip(others, theirs, strict=True):
            yield Figure(name="one append over HTTP", against=name, ours=mine, other=taken, work=calls, unit="call")


def _on_wire(port: int, request: bytes, calls: int) -> Side:
    """Return a side that sends the request on a connection of its own: servers close those that are idle."""

    def side() -> float:
        with _calls(port, request) as call:
            return _timed(call, calls)()

    return side


def _timed(call: Callable[[], object], calls: int) -> Side:
    def side() -> float:
        with stopwatch() as watch:
            for _ in range(calls):
                call()
        return watch.seconds

    return side


@contextmanager
def _light(path: str, directory: Path) -> Iterator[int]:
    command = [sys.executable, "-m", "benchmarks.light_servers", path, str(directory)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate()


def _request(path: str) -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(VALUE), VALUE)


def _frame() -> bytes:
    return len(VALUE).to_bytes(4, "big") + VALUE


@contextmanager
def _calls(port: int, request: bytes) -> Iterator[Callable[[], object]]:
    """Give a function that sends the request and receives its answer."""
    with closing(socket.create_connection(("127.0.0.1", port))) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def call() -> None:
            wire.sendall(request)
            answer = wire.recv(4096)
            while answer.startswith(b"HTTP") and not _is_whole(answer):
                answer += wire.recv(4096)
            assert answer.startswith(b"HTTP/1.1 20") or len(answer) == 8, answer

        yield call


def _is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    return bool(end) and len(body) == int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])


def draw_flames(target: Path = FLAME) -> int:
    """Draw where `seglog serve` spends the time of appends, one at a time; return the exit status."""
    spy = shutil.which("py-spy") or shutil.which("py-spy", path=Path(sys.executable).parent)
    if spy is None:
        skip("the flame graph", "py-spy is not installed")
        return 0
    with tempfile.TemporaryDirectory() as directory, serving(Path(directory)) as url:
        with Client(url) as client:
            client.create_topic("one")
        ended = threading.Event()
        with _calls(int(url.rpartition(":")[2]), _request("/topics/one/records")) as call:

            def append() -> None:
                while not ended.is_set():
                    call()

            thread = threading.Thread(target=append)
            thread.start()
            try:
                command = [spy, "record", "--rate", "1000", "--duration", str(FLAME_SECONDS), "--output", str(target)]
                subprocess.run([*command, "--pid", str(_pid(directory))], check=True, capture_output=True)
                target.write_text(re.sub(r"(?<=>)[^<]*py-spy record[^<]*", TITLE, target.read_text()))
            finally:
                ended.set()
                thread.join()
    print(f"written: {target}")
    return 0


def _pid(directory: str) -> int:
    found = subprocess.run(["pgrep", "-f", f"serve {directory}"], check=True, capture_output=True, text=True)
    return int(found.stdout.split()[0])


if __name__ == "__main__":
    sys.exit(draw_flames())
