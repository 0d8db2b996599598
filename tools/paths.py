"""Count the modules that one operation enters, and how often a call moves from one module to another.

`python -m tools.paths [OPERATION ...]` runs each operation often enough that imports and first uses are over, and then
traces one run. A module counts if one of its functions is called; a change of module is a call of a function of another
module of seglog than the one whose function was called before it. Threads that the operation waits for are included.
Compiled kernels are not seen inside. `--modules` prints the modules in the order in which they are entered.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import seglog

if TYPE_CHECKING:
    from types import FrameType

RECORDS = 1000
VALUE = b"a value of a record"
WARM = 3


class Operation(NamedTuple):
    """What is traced, and what has to be done before each run of it."""

    run: Callable[[], object]
    prepare: Callable[[], object] = lambda: None


class Entered(NamedTuple):
    """The modules an operation entered, in the order of their first call, and the changes of module."""

    modules: list[str]
    changes: int


class Tracer:
    """Notes the module of every call of a function of seglog."""

    def __init__(self) -> None:
        self._called: list[str] = []

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """For sys.setprofile."""
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("seglog") and (not self._called or self._called[-1] != module):
            self._called.append(module)

    @property
    def entered(self) -> Entered:
        """What was noted so far."""
        return Entered(list(dict.fromkeys(self._called)), len(self._called))


def trace(operation: Operation) -> Entered:
    """Run an operation until it is warm, then once more, and return what that run entered."""
    for _ in range(WARM):
        operation.prepare()
        operation.run()
    operation.prepare()
    tracer = Tracer()
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    try:
        operation.run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return tracer.entered


def fill(log: seglog.Log) -> None:
    """Append the records that an operation reads."""
    for _ in range(RECORDS):
        log.append(VALUE)


# --- operations ----------------------------------------------------------------------------------------------------


@contextmanager
def single_append(directory: Path) -> Iterator[Operation]:
    """Log.append, with the default configuration."""
    with seglog.open(directory) as log:
        yield Operation(lambda: log.append(VALUE))


@contextmanager
def durable_append(directory: Path) -> Iterator[Operation]:
    """Log.append with flush_records=1."""
    with seglog.open(directory, seglog.LogConfig(flush_records=1)) as log:
        yield Operation(lambda: log.append(VALUE))


@contextmanager
def batch_append(directory: Path) -> Iterator[Operation]:
    """Log.append_batch of a table of 1,000 rows."""
    import pyarrow as pa  # noqa: PLC0415 - only some operations need it

    table = pa.table({"value": pa.array([VALUE] * RECORDS, pa.binary())})
    with seglog.open(directory) as log:
        yield Operation(lambda: log.append_batch(table))


@contextmanager
def point_read(directory: Path) -> Iterator[Operation]:
    """Log.read of one record, by the kernel."""
    with seglog.open(directory) as log:
        fill(log)
        log.to_arrow(0)
        yield Operation(lambda: log.read(RECORDS // 2))


@contextmanager
def compaction(directory: Path) -> Iterator[Operation]:
    """Log.compact of two sealed segments with many values a key."""
    config = seglog.LogConfig(segment_bytes=64 << 10, retention=seglog.Retention(compact=True))
    with seglog.open(directory, config) as log:

        def fill_segments() -> None:
            for number in range(2 * RECORDS):
                log.append(VALUE * 4, key=b"%d" % (number % 10))

        yield Operation(log.compact, fill_segments)


@contextmanager
def http_append(directory: Path) -> Iterator[Operation]:
    """POST of one record to the app of the server, inside the process."""
    from seglog.server.app import app_of, services_of  # noqa: PLC0415 - only some operations need it
    from seglog.server.settings import Settings  # noqa: PLC0415 - see above

    services = services_of(seglog.Broker(directory), Settings())
    app, loop = app_of(services), asyncio.new_event_loop()
    sent: list[int] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": VALUE, "more_body": False}

    async def send(message: dict[str, object]) -> None:
        if "status" in message:
            sent.append(message["status"])  # type: ignore[arg-type] # an integer in this message

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/topics/default/records",
        "raw_path": b"/topics/default/records",
        "query_string": b"",
        "headers": [(b"content-length", b"%d" % len(VALUE)), (b"host", b"localhost")],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("localhost", 80),
        "client": ("localhost", 1),
        "root_path": "",
    }

    def post() -> None:
        loop.run_until_complete(app(dict(scope), receive, send))  # type: ignore[arg-type] # plain dicts will do
        if sent[-1] != HTTPStatus.OK:
            raise RuntimeError(f"the append was answered with status {sent[-1]}")

    try:
        yield Operation(post)
    finally:
        loop.close()
        services.broker.close()


@contextmanager
def spark_task(directory: Path) -> Iterator[Operation]:
    """SeglogReader.read: what one task of Spark runs to read a partition of a log, without Spark around it."""
    from seglog.spark.read.options import ReadOptions  # noqa: PLC0415 - only some operations need it
    from seglog.spark.read.reader import SeglogReader  # noqa: PLC0415 - see above

    with seglog.open(directory) as log:
        fill(log)
    reader = SeglogReader(ReadOptions.parse({"path": str(directory)}, "batch", {}))
    (partition,) = reader.partitions()
    yield Operation(lambda: sum(batch.num_rows for batch in reader.read(partition)))


OPERATIONS = {
    operation.__name__: operation
    for operation in (single_append, durable_append, batch_append, point_read, compaction, http_append, spark_task)
}


def measure(name: str) -> Entered:
    """Trace the operation of this name in a temporary directory."""
    with tempfile.TemporaryDirectory() as directory, OPERATIONS[name](Path(directory) / "log") as operation:
        return trace(operation)


def main() -> None:
    """Print a line for each operation."""
    parser = argparse.ArgumentParser(prog="python -m tools.paths", description=__doc__)
    parser.add_argument("operations", nargs="*", metavar="OPERATION", help=f"of {', '.join(OPERATIONS)}; default: all")
    parser.add_argument("--modules", action="store_true", help="print the modules, too")
    options = parser.parse_args()
    print(f"{'operation':16}{'modules':>9}{'changes':>9}")
    for name in options.operations or OPERATIONS:
        entered = measure(name)
        print(f"{name:16}{len(entered.modules):>9}{entered.changes:>9}")
        if options.modules:
            print("\n".join(f"    {module}" for module in entered.modules))


if __name__ == "__main__":
    main()
