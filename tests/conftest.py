"""What tests of several layers share: a clock, keyed logs in a short notation, a real server, one Spark session."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import time
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

import seglog
from seglog import LogConfig, Retention
from tests import forked, pages, proofs, tools
from tests.forked import MEASURED
from tests.ports import kept_port
from tests.tls import certify
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from seglog.config import Compression

# Timings are not tests: a busy machine is no fault of an example. `make test` tries the same few examples each time, so
# that chance does not decide what lands; `make proof` looks for new ones.
settings.register_profile("same", deadline=None, derandomize=True, max_examples=30)
settings.register_profile("full", deadline=None)
settings.load_profile(os.environ.get("SEGLOG_WALKS", "same"))

# Tests start many short Java processes: the second compiler and a parallel collector cost each more than they gain, and
# so does compiling a plan that reads ten rows. `make demo` runs without these.
SHORT_LIVED = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"),
    *("-Dspark.sql.codegen.wholeStage=false", "-Dspark.sql.codegen.factoryMode=NO_CODEGEN"),
)
os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(SHORT_LIVED))

HERE = Path(__file__).parent
# No test asks a server that an authority has certified. Otherwise each call of httpx.get and the like would read all
# certificates of authorities, 40 ms, also for http. One is needed: others refuse to work without any.
os.environ["SSL_CERT_FILE"] = str(HERE / "authority.pem")
os.environ.pop("SSL_CERT_DIR", None)
SECOND = 1_000_000
LONGEST_ID = 100
STARTED = time.time()


@pytest.fixture(scope="session")
def tell() -> proofs.Tell:
    return proofs.tell


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Give a long parameter a short id: pytest keeps the id in the environment, where too much prevents any start."""
    return f"{argname} of {len(val)}" if isinstance(val, (str, bytes)) and len(val) > LONGEST_ID else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test before its fixtures are made if a program that it needs is missing."""
    for marker in item.iter_markers("needs"):
        tools.require(*marker.args)
    if "spark" in getattr(item, "fixturenames", ()):
        tools.require("java")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the proofs of this run have counted, and the tests that were skipped because a tool is missing."""
    if line := tools.summary(str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line)
    told = proofs.rows(proofs.DIRECTORY, since=STARTED)
    if told:
        terminalreporter.section("proofs")
    for proof, counts in proofs.sums(told):
        terminalreporter.write_line(f"{proof}: {proofs.described(counts)}")


class ManualClock:
    """A clock that only a test moves."""

    def __init__(self) -> None:
        self.now = 1_700_000_000 * SECOND

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)


class Shop:
    """Makes keyed logs. `a b=x c- .` is a record of key a, one of b with value x, a tombstone of c, one without key."""

    def __init__(self, place: Any, clock: ManualClock) -> None:
        self.place = place
        self.clock = clock

    def open(
        self,
        *,
        segment_bytes: int = 4096,
        segment_age: float | None = 1,
        compression: Compression = "none",
        compact: bool = True,
        **retention: Any,
    ) -> seglog.Log:
        """Open the log; a segment that holds records rolls where the text of `put` has a bar."""
        kept = Retention(compact=compact, **retention)
        config = LogConfig(
            segment_bytes=segment_bytes,
            segment_age=segment_age,
            index_interval_bytes=64,
            retention=kept,
            compression=compression,
        )
        return seglog.open(self.place, config, clock=self.clock)

    def put(self, log: seglog.Log, text: str) -> None:
        """Append the record of each part of the text; a bar ends a segment."""
        for word in text.split():
            if word == "|":
                self.clock.advance(2)
                log.expire()
                continue
            key, equals, value = word.partition("=")
            tombstone = key.endswith("-")
            named = None if key == "." else key.removesuffix("-").encode()
            log.append(None if tombstone else value.encode() if equals else b"v", key=named)

    @staticmethod
    def content(log: seglog.Log) -> str:
        """Return the records as key@offset, ∅ after the key of a tombstone; check that all ways of reading agree."""
        records = list(log.scan())
        assert log.to_arrow()["offset"].to_pylist() == [record.offset for record in records]
        assert [log.read(record.offset) for record in records] == records
        return " ".join(
            f"{'.' if record.key is None else record.key.decode()}{'∅' if record.value is None else ''}@{record.offset}"
            for record in records
        )

    @staticmethod
    def ranges(log: seglog.Log) -> list[tuple[int, int, int]]:
        """Return (base offset, next offset, records) of every segment."""
        return [(one.base_offset, one.next_offset, one.records) for one in log.segments]


@contextmanager
def unmeasured() -> Iterator[None]:
    """Do not measure coverage in processes that are started meanwhile."""
    given = os.environ.pop(MEASURED, None)
    try:
        yield
    finally:
        if given is not None:
            os.environ[MEASURED] = given


def pytest_configure(config: pytest.Config) -> None:
    """Measure once in each of xdist's processes, and not in the one that waits for them.

    pytest-cov begins with every process, and again with the session of a worker; coverage begins in whatever a measured
    process starts. What began first would go on while the last pauses.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in what a shell starts in the background, and all below
        signal.signal(signal.SIGINT, signal.default_int_handler)  # tests interrupt programs
    config.addinivalue_line("markers", "xdist_group(name): runs in one process (xdist's; also known without it)")
    if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        os.environ.pop(MEASURED, None)
        if measuring := config.pluginmanager.getplugin("_cov"):
            measuring.cov_controller.pause()


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Let only this process look for files that are not executed: in each of hundreds it takes as long as a start."""
    if MEASURED in os.environ:
        from coverage.config import CoverageConfig  # noqa: PLC0415 - only needed here

        config = CoverageConfig.deserialize(os.environ[MEASURED])
        config.source, config.run_include = None, [str(Path(seglog.__file__).parent / "*")]
        os.environ[MEASURED] = config.serialize()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without garbage collection, which would look at each of thousands of tests again and again, and later."""
    gc.disable()
    try:
        with measured_once(session):
            return (yield)
    finally:
        gc.enable()
        gc.freeze()


@contextmanager
def measured_once(session: pytest.Session) -> Iterator[None]:
    """Measure what importing the tests runs in one process of xdist: it is the same in all."""
    measuring = session.config.pluginmanager.getplugin("_cov")
    if measuring is None or os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
        yield
        return
    measuring.cov_controller.pause()
    try:
        yield
    finally:
        measuring.cov_controller.resume()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Extend pytest-cov's mark `no_cover` to the processes that the test starts; compare what it ran of a page."""
    with nullcontext() if item.get_closest_marker("no_cover") is None else unmeasured():
        done = yield
    if item.get_closest_marker("examples") is not None:
        assert isinstance(item, pytest.Function)
        assert "examples" in item.funcargs, "a test with the mark `examples` takes the fixture `examples`"
        left: set[str] = item.funcargs["examples"].unrun()
        assert not left, f"the test ran no examples of the page in {left}"
    return done


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The files of a certificate of 127.0.0.1 and of its key."""
    tools.require("openssl")
    return certify(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def examples(request: pytest.FixtureRequest) -> pages.Examples:
    """The examples of the page that the test's mark names; the test must run them."""
    return pages.Examples(*request.node.get_closest_marker("examples").args)


PROOF_SECONDS = 1200  # a proof may take longer than other tests, and CI's machines are not equally fast
SESSIONS = ("streams", "batches")  # of Spark: one alone would take longer than everything else
LONGEST = (  # directories and files with the longest groups and tests
    "attack",
    "archive",
    "spark",
    "kernels/test_both_ways_to_compile.py",
    "replication",
    "demo",
    "server",
    "fuzz",
    "crash",
    "log",
    "client",
)


def session_of(path: Path) -> str:
    """Return which session of Spark the tests of a file share."""
    return "streams" if any(word in path.name for word in ("stream", "table", "warehouse")) else "batches"


@cache
def turn(path: Path) -> int:
    """Return when the tests of a file have their turn: the lowest first."""
    places = (path, *path.parents)
    return next((1 + at for at, name in enumerate(LONGEST) if HERE / name in places), 1 + len(LONGEST))


def shares(item: pytest.Item) -> bool:
    """Whether a test uses what is made once for its module: a server, a browser, a large log."""
    if item.get_closest_marker("xdist_group") or item.get_closest_marker("proof"):  # a proof takes longer than that
        return False
    found = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    return any(last.scope == "module" and last.baseid for *_, last in found)


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests that share a session of Spark or a module's server in one process; begin with what takes longest."""
    order: dict[int, int] = {}
    for item in items:
        order[id(item)] = turn(item.path)
        if item.get_closest_marker("proof") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PROOF_SECONDS))
        if "spark" in getattr(item, "fixturenames", ()):
            session = session_of(item.path)
            item.add_marker(pytest.mark.xdist_group(session))
            order[id(item)] = SESSIONS.index(session) - len(SESSIONS)  # before all others
        elif shares(item):
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}-{item.path.stem}"))
    items.sort(key=lambda item: order[id(item)])


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def shop_at(clock: ManualClock) -> Callable[[Any], Shop]:
    """Make keyed logs at a place: a path, or a storage."""
    return lambda place: Shop(place, clock)


class Served:
    """A real `seglog serve` process over a directory; it can be killed, stopped and started again on its port."""

    def __init__(self, root: Path, options: Sequence[str]) -> None:
        self.root = root
        self._options = options
        self.port = kept_port(self)
        self.said: list[str] = []
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "seglog", "serve", str(self.root), "--port", str(self.port), *self._options]
        self.process = forked.start(command)
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.search(r"listening on https?://.*:(\d+)", line):
                self.port = int(found[1])
                return
        raise AssertionError("the server ended: " + "".join(self.said))

    def stop(self) -> str:
        """End it as an operator does; return what it said at its end."""
        self.process.terminate()
        return self._over()

    def kill(self) -> None:
        """End it as the kernel does."""
        self.process.kill()
        self._over()

    def _over(self) -> str:
        out, _ = self.process.communicate(timeout=HANG_SECONDS)
        self.said.append(out)
        return out


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start servers: serve("--tokens", "file", ..., root=directory); all are ended with the test."""
    started: list[Served] = []

    def start(*options: str, root: Path | None = None) -> Served:
        started.append(Served(tmp_path / "served" if root is None else root, options))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.stop()


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one server for all tests that make topics of their own and leave it running."""
    server = Served(tmp_path_factory.mktemp("served"), ())
    yield server.url
    server.stop()


@pytest.fixture(scope="session")
def unsynced_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that syncs only when it is asked to, for tests that make topics of their own."""
    server = Served(tmp_path_factory.mktemp("unsynced"), ("--sync-interval", "1h"))
    yield server.url
    server.stop()


PROMPT = HERE / "spark" / "programs" / "prompt"


def with_prompt_workers(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for a Spark whose Python workers connect in time however busy the machine is."""
    paths = (str(PROMPT), environment.get("PYTHONPATH"))
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from seglog.spark.session import local_session  # noqa: PLC0415 - pyspark takes a second that few tests need

    with unmeasured(), pytest.MonkeyPatch.context() as patched:  # measuring would slow the jobs of Spark's workers
        patched.setenv("PYTHONPATH", with_prompt_workers(os.environ)["PYTHONPATH"])  # Java keeps it
        session = local_session(
            "seglog tests",
            master="local[2]",
            config={
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            },
        )
    yield session
    session.stop()
