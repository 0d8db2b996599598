"""How a server ends: on SIGTERM what is under way is finished, and whatever was acknowledged is there afterwards."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
import threading
import time
from contextlib import contextmanager

import httpx
import pytest

from seglog.log.opening import open_log
from tests import forked
from tests.waiting import HANG_SECONDS, NEVER_SECONDS, until

NDJSON = {"Content-Type": "application/x-ndjson"}
LARGE = 50 * 1024 * 1024


def slowly(size, *, until=None, pieces=50, pause=0.02):
    """Yield a body of so many bytes, with a pause before each piece; the second half once `until` is set."""
    for number in range(pieces):
        if until is not None and number == pieces // 2:
            assert until.wait(HANG_SECONDS)
        time.sleep(pause)  # the sender's own slowness, which is what is tested
        yield bytes([number]) * (size // pieces)


class Acknowledged(threading.Thread):
    """Appends one record after the other until the server is gone, and notes what was acknowledged."""

    def __init__(self, server, path, body, headers=None):
        super().__init__()
        self._server, self._path, self._body, self._headers = server, path, body, headers
        self.answers: list[dict] = []
        self.first = threading.Event()

    def run(self):
        with self._server.client() as http:
            while True:
                try:
                    answer = http.post(self._path, content=self._body, headers=self._headers)
                except httpx.TransportError:
                    return
                if answer.status_code != 200:
                    assert answer.status_code == 503, answer.text
                    return
                self.answers.append(answer.json())
                self.first.set()


@contextmanager
def under_way(call):
    """Make a call on a thread; give a list that has what it returned, once the context is over."""
    result: list = []
    thread = threading.Thread(target=lambda: result.append(call()))
    thread.start()
    yield result
    thread.join(HANG_SECONDS)
    assert not thread.is_alive()


def test_a_signal_that_comes_as_soon_as_the_address_is_known_stops_it_as_any_other(serve_with):
    server = serve_with()
    assert "stopped; everything acknowledged is on disk" in server.stop()
    assert server.process.returncode == 0


INTERRUPTED = """
import os, signal, sys
from seglog.server.serving import serve
from seglog.server.settings import Settings

said = []

def say(text):
    assert None not in said, "a message within a message"
    said.append(None)
    if text.startswith("listening"):
        os.kill(os.getpid(), signal.SIGTERM)
    said[-1] = text

serve(sys.argv[1], Settings(port=0), say)
print(*said, sep="\\n")
"""


def test_a_signal_that_interrupts_a_message_stops_it_as_any_other(tmp_path):
    program = forked.start([sys.executable, "-c", INTERRUPTED, str(tmp_path / "root")])
    said, _ = program.communicate()
    assert said.splitlines()[1:] == [
        "SIGTERM: stopping; finishing running requests first",
        "stopped; everything acknowledged is on disk",
    ]
    assert program.returncode == 0


def test_on_sigterm_everything_under_way_is_finished_and_what_was_acknowledged_is_there(serve_with):
    server = serve_with(limits={"stop_seconds": NEVER_SECONDS})
    stopping = threading.Event()
    with server.client() as http:
        http.post("/topics", json={"name": "t", "partitions": 3})
    singles = [Acknowledged(server, "/topics/t/records?partition=0", b"v" * 100) for _ in range(3)]
    rows = "".join(json.dumps({"value": f"{n}"}) + "\n" for n in range(2000))
    batches = Acknowledged(server, "/topics/t/batches?partition=1", rows, NDJSON)
    durable = Acknowledged(server, "/topics/t/records?partition=0&ack=durable", b"d" * 100)
    threads = [*singles, batches, durable]

    def upload():
        with server.client() as http:
            return http.post("/topics/t/records?partition=2", content=slowly(LARGE, until=stopping)).json()

    def poll():
        with server.client() as http:
            return http.get("/topics/default/partitions/0/records?wait=60")

    def tail():
        with server.client() as http, http.stream("GET", "/topics/default/tail") as events:
            return list(events.iter_lines())

    with under_way(upload) as uploaded, under_way(poll) as polled, under_way(tail) as tailed:
        for thread in threads:
            thread.start()
        for thread in threads:
            assert thread.first.wait(HANG_SECONDS)
        server.process.terminate()
        stopping.set()
        said = server.over()
    for thread in threads:
        thread.join(HANG_SECONDS)

    assert server.process.returncode == 0
    assert "everything acknowledged is on disk" in said
    assert uploaded == [{"partition": 2, "offset": 0, "durable": False}]
    assert (polled[0].status_code, polled[0].content) == (200, b"")
    assert len(tailed) == 1
    server.start()
    with server.client() as http:
        ends = [one["next_offset"] for one in http.get("/topics/t").json()["partition_states"]]
        assert http.get("/topics/t/partitions/2/records/0").content == b"".join(slowly(LARGE, pause=0))
    offsets = [answer["offset"] for thread in [*singles, durable] for answer in thread.answers]
    assert len(set(offsets)) == len(offsets)
    assert set(offsets) <= set(range(ends[0]))
    assert sum(answer["records"] for answer in batches.answers) <= ends[1]
    assert ends[1] % 2000 == 0


def test_while_it_stops_no_new_requests_are_taken(serve_with):
    server = serve_with()
    stopping = threading.Event()

    def upload():
        with server.client() as http:
            return http.post("/records", content=slowly(LARGE, until=stopping)).status_code

    with server.client() as other, under_way(upload) as uploaded:
        assert other.get("/ready").status_code == 200
        until(lambda: "seglog_spool_memory_bytes 0.0" not in other.get("/metrics").text)
        server.process.terminate()
        assert "stopping" in server.process.stdout.readline()
        until(lambda: refused(server.port))
        with pytest.raises(httpx.TransportError):
            other.get("/ready")
        stopping.set()
    assert uploaded == [200]
    server.over()
    assert server.process.returncode == 0


def refused(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=HANG_SECONDS).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # it waited to be accepted when the listener closed: look again
        pass
    return False


def test_an_upload_that_does_not_end_is_given_up_after_the_stop_time_and_leaves_nothing(serve_with):
    server = serve_with(limits={"stop_seconds": 1})
    with server.connection() as wire:
        wire.send("POST /records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf of it")
        with server.client() as http:
            until(lambda: "seglog_spool_memory_bytes 10.0" in http.get("/metrics").text)
        server.stop()
    assert server.process.returncode == 0
    assert len(open_log(server.root / "default" / "0", mode="r")) == 0


@pytest.mark.needs("strace")
@pytest.mark.parametrize("ack", ["appended", "durable"])
def test_durable_means_that_the_medium_was_asked(serve_with, tmp_path, ack):
    trace = tmp_path / "trace"
    limits = {"sync_seconds": 3600.0}  # so that nothing else syncs
    server = serve_with(
        limits=limits, wrapper=("strace", "-D", "-f", "-y", "-e", "trace=fdatasync,fsync", "-o", str(trace))
    )
    with server.client() as http:
        http.post("/topics", json={"name": "t"})
        before = syncs(trace)
        for _ in range(5):
            http.post(f"/topics/t/records?ack={ack}", content=b"v")
            assert (syncs(trace) > before) == (ack == "durable")
            before = syncs(trace)
        assert http.get("/topics/t").json()["partition_states"][0]["durable_offset"] == (5 if ack == "durable" else 0)


def syncs(trace):
    """Return how often the store of the topic was synced."""
    return len(re.findall(r"(?:fdatasync|fsync)\(\d+<[^>]*/t/0/[^>]*\.store>", trace.read_text()))


def test_after_a_kill_what_was_acknowledged_is_there_and_the_spool_is_empty(serve_with, tmp_path):
    server = serve_with(spool=str(tmp_path))
    thread = Acknowledged(server, "/records", b"v")
    with server.connection() as wire:
        wire.send("POST /records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90000000\r\n\r\n", b"x" * 40_000_000)
        thread.start()
        assert thread.first.wait(HANG_SECONDS)
        server.kill()
    thread.join(HANG_SECONDS)
    server.start()
    assert list(tmp_path.iterdir()) == []
    with server.client() as http:
        end = http.get("/index_bounds").json()["highest_index"]
        assert [answer["write_index"] for answer in thread.answers] == list(range(len(thread.answers)))
        assert len(thread.answers) <= end <= len(thread.answers) + 1


def test_after_a_kill_what_was_acknowledged_is_there_also_where_the_topic_has_a_buffer(serve_with):
    server = serve_with()
    with server.client() as http:
        http.post("/topics", json={"name": "t", "config": {"buffer_bytes": 2**20}})
        for _ in range(5):
            assert http.post("/topics/t/records", content=b"v").status_code == 200
    server.kill()
    server.start()
    with server.client() as http:
        assert http.get("/topics/t").json()["partition_states"][0]["next_offset"] == 5


@pytest.mark.needs("strace")
def test_a_poisoned_log_acknowledges_nothing_more_and_health_names_it(serve_with):
    fault = ("-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=1+", "-P")
    server = serve_with()
    with server.client() as http:
        http.post("/topics", json={"name": "t"})
    server.stop()
    (store,) = (server.root / "t" / "0").glob("*.store")
    failing = serve_with(root=server.root, wrapper=("strace", "-D", "-f", "-o", "/dev/null", *fault, str(store)))
    with failing.client() as http:
        key = {"Idempotency-Key": "a"}
        assert http.post("/topics/t/records", content=b"v", headers=key).status_code == 200
        assert http.post("/topics/t/records?ack=durable", content=b"w").json()["error"] == "LogPoisoned"
        again = http.post("/topics/t/records", content=b"v", headers=key)
        assert (again.status_code, again.json()["error"]) == (503, "LogPoisoned")
        health = http.get("/health")
        assert (health.status_code, [one["log"] for one in health.json()["failures"]]) == (503, ["t/0"])
        assert http.post("/records", content=b"v").status_code == 200


def test_a_second_ctrl_c_ends_it_at_once_and_without_a_traceback(serve_with):
    server = serve_with(limits={"stop_seconds": NEVER_SECONDS})
    with server.connection() as wire, server.client() as http:
        wire.send("POST /records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf of it")
        until(lambda: "seglog_spool_memory_bytes 10.0" in http.get("/metrics").text)
        server.process.send_signal(signal.SIGINT)
        assert "stopping" in server.process.stdout.readline()
        server.process.send_signal(signal.SIGINT)
        said = server.over()
    assert server.process.returncode == 0
    assert said == "stopped; everything acknowledged is on disk\n"
