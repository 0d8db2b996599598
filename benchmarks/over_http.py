"""`seglog serve` and its client against nats-server (JetStream, file storage) and redis-server (streams, appendonly).

All sides run on this machine, server and client, one after another; slower ones with fewer records per pass, so the
comparison is in seconds per record. "appended" on all sides: a record is acknowledged when it is written, without a
sync (JetStream syncs every two minutes, Redis every second, ours when a segment is full or on request), except in the
line that says durable. Before each pass everything written earlier is synced to the disk.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median, quantiles

import pyarrow as pa

from benchmarks.data import keyed_table, record_bytes
from benchmarks.peers import Peer, peers
from benchmarks.scale import Scale
from benchmarks.timing import Figure, Side, in_rounds, settled, stopwatch
from seglog.client.client import Client
from seglog.client.models import Ack
from seglog.client.topic import RemoteTopic

VALUE_BYTES = 100
OURS_TIMES = 20  # records per pass of our batches, as a multiple of the peers'
NDJSON_ROWS = 50_000  # of one request
BATCHES_AIM = 10.0
SINGLES_AIM = 0.5


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure batches, single appends and reading back, of values of 100 B."""
    with serving(directory / "served") as url, Client(url) as client, peers(directory) as others:
        run = _Run(client, url, others, scale)
        yield from run.batches()
        yield from run.keyed_batches()
        yield from run.reading()
        yield from run.singles()
        yield from run.durable_singles()


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """Serve a directory; yield the URL."""
    command = [sys.executable, "-m", "seglog", "serve", str(root), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        found = re.search(r"listening on (\S+)", said)
        assert found, said
        yield found[1]
    finally:
        process.terminate()
        process.communicate()


Append = Callable[[RemoteTopic], object]


class _Run:
    """All sides, ready to run."""

    def __init__(self, client: Client, url: str, others: Sequence[Peer], scale: Scale) -> None:
        self._client, self._url, self._others = client, url, others
        self._repeats = scale.repeats
        self._few, self._many = scale.calls // 2, OURS_TIMES * scale.calls // 2
        self._calls = scale.calls // 50
        self._table = keyed_table(VALUE_BYTES, self._many * record_bytes(VALUE_BYTES))
        self._values: list[bytes] = self._table["value"].to_pylist()
        self._keys: list[bytes] = self._table["key"].to_pylist()

    # --- many ---------------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[Figure]:
        """Measure values without keys: Arrow tables, lists of bytes, NDJSON, and one `send` a record."""
        table, values = self._table.select(["value"]), self._values
        ours: dict[str, tuple[int, int, Append]] = {
            "batches, 1 partition": (self._many, 1, lambda topic: topic.append_batch(table)),
            "batches, 4 partitions": (self._many, 4, lambda topic: topic.append_batch(table)),
            "batches of Python's bytes": (self._many, 4, lambda topic: topic.append_batch(pa.table({"value": values}))),
            "producer, record by record": (self._few, 4, lambda topic: self._produce(topic.name)),
            "NDJSON": (NDJSON_ROWS, 1, self._ndjson(values[:NDJSON_ROWS])),
        }
        few = values[: self._few]
        theirs = {one.name: partial(one.append_many, few, None) for one in self._others}
        yield from self._compared(ours, theirs, aims={"batches, 1 partition", "batches, 4 partitions"})

    def keyed_batches(self) -> Iterator[Figure]:
        """Measure the same with keys of 16 B."""
        ours: dict[str, tuple[int, int, Append]] = {
            f"keyed batches, {text}": (self._many, partitions, lambda topic: topic.append_batch(self._table))
            for partitions, text in ((1, "1 partition"), (4, "4 partitions"))
        }
        values, keys = self._values[: self._few], self._keys[: self._few]
        theirs = {one.name: partial(one.append_many, values, keys) for one in self._others}
        yield from self._compared(ours, theirs, aims=set(ours))

    def reading(self) -> Iterator[Figure]:
        """Read back what was appended, in ranges of Arrow."""
        topic = self._client.create_topic("read")
        topic.append_batch(self._table.select(["value"]))
        for one in self._others:
            one.append_many(self._values[: self._few], None)

        def ours() -> float:
            with stopwatch() as watch:
                assert sum(batch.num_rows for batch in topic.batches(0)) == self._many
            return watch.seconds / self._many

        sides = {one.name: self._per_few(partial(one.read_all, self._few)) for one in self._others}
        yield from self._rates({"reading back, Arrow": ours}, sides, aims=set())
        self._client.delete_topic("read")

    def _compared(
        self,
        ours: dict[str, tuple[int, int, Append]],
        theirs: Mapping[str, Callable[[], float]],
        *,
        aims: set[str],
    ) -> Iterator[Figure]:
        mine: dict[str, Side] = {name: partial(self._fresh, *one) for name, one in ours.items()}
        yield from self._rates(mine, {name: self._per_few(side) for name, side in theirs.items()}, aims=aims)

    def _per_few(self, side: Callable[[], float]) -> Side:
        return lambda: side() / self._few

    def _fresh(self, records: int, partitions: int, append: Append) -> float:
        """Append to a new topic; return the seconds per record."""
        topic = self._client.create_topic("many", partitions=partitions)
        with stopwatch() as watch:
            append(topic)
        stored = sum(bounds.next_offset for bounds in topic.bounds().values())
        assert stored == records, stored
        self._client.delete_topic("many")
        return watch.seconds / records

    def _produce(self, name: str) -> None:
        with self._client.producer(name) as producer:
            for value in self._values[: self._few]:
                producer.send(value)

    def _ndjson(self, values: Sequence[bytes]) -> Append:
        lines = (json.dumps({"value": value.hex()[:VALUE_BYTES]}) + "\n" for value in values)
        body = "".join(lines).encode()

        def append(topic: RemoteTopic) -> object:
            headers = {"Content-Type": "application/x-ndjson"}
            request = urllib.request.Request(f"{self._url}/topics/{topic.name}/batches", body, headers)  # noqa: S310 - http
            with urllib.request.urlopen(request) as answer:  # noqa: S310 - our own server's URL
                return answer.read()

        return append

    def _rates(self, ours: Mapping[str, Side], theirs: Mapping[str, Side], *, aims: set[str]) -> Iterator[Figure]:
        taken = _in_rounds({**ours, **theirs}, self._repeats)
        for name in ours:
            for other in theirs:
                yield Figure(
                    name=name,
                    against=other,
                    ours=taken[name],
                    other=taken[other],
                    work=1e-3,
                    unit="k records",
                    aim=BATCHES_AIM if name in aims else None,
                )

    # --- one at a time ------------------------------------------------------------------------------------------

    def singles(self) -> Iterator[Figure]:
        """Append one record after another: the median time of a call, and the 99th percentile."""
        topic = self._client.create_topic("single")
        value, calls = self._values[0], self._calls
        sides = {one.name: partial(one.append_singly, value, calls) for one in self._others}
        yield from self._latencies("single append", partial(_calls, topic, value, calls, "appended"), sides)

    def durable_singles(self) -> Iterator[Figure]:
        """Do the same with each record on the disk before it is acknowledged; JetStream cannot do this."""
        topic = self._client.create_topic("durable")
        value, calls = self._values[0], self._calls // 4
        for one in self._others:
            if one.name == "Redis":
                sync_always: Callable[[bool], None] = one.sync_always  # type: ignore[attr-defined]
                sync_always(True)
                sides = {"Redis, fsync always": partial(one.append_singly, value, calls)}
                yield from self._latencies("durable append", partial(_calls, topic, value, calls, "durable"), sides)
                sync_always(False)

    def _latencies(
        self, name: str, ours: Callable[[], list[float]], theirs: Mapping[str, Callable[[], list[float]]]
    ) -> Iterator[Figure]:
        passes: dict[str, list[list[float]]] = {"ours": [], **{other: [] for other in theirs}}
        sides = {side: _kept(run, passes[side]) for side, run in {"ours": ours, **theirs}.items()}
        _in_rounds(sides, self._repeats)
        shares = (("p50", median, SINGLES_AIM), ("p99", lambda taken: quantiles(taken, n=100)[-1], None))
        for label, share, aim in shares:
            mine, *others = ([share(taken) for taken in passes[side][1:]] for side in passes)
            for other, seconds in zip(theirs, others, strict=True):
                yield Figure(
                    name=f"{name}, {label}",
                    against=other,
                    ours=tuple(mine),
                    other=tuple(seconds),
                    work=1,
                    unit="call",
                    aim=aim,
                )


def _calls(topic: RemoteTopic, value: bytes, calls: int, ack: Ack) -> list[float]:
    taken = []
    for _ in range(calls):
        begun = time.perf_counter()
        topic.append(value, ack=ack)
        taken.append(time.perf_counter() - begun)
    return taken


def _kept(run: Callable[[], list[float]], passes: list[list[float]]) -> Side:
    """Return a side that stores the latencies of each pass."""

    def side() -> float:
        passes.append(run())
        return sum(passes[-1])

    return side


def _in_rounds(sides: dict[str, Side], repeats: int) -> dict[str, tuple[float, ...]]:
    """Return the seconds of each side in every round."""
    return dict(zip(sides, in_rounds([settled(side) for side in sides.values()], repeats=repeats), strict=True))
