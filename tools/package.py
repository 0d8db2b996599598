"""Build sdist and wheel, install the wheel into empty environments with each extra alone, run the README in each.

The tutorial runs in the environment of the client. `python -m tools.package` exits with status 1 at the first command
that fails. The packages are those of constraints.txt. uv creates the environments, because it links files from its
cache instead of copying them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import seglog
from tools import examples, readme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
TABLE = """
from pyiceberg.catalog.sql import SqlCatalog
table = SqlCatalog("seglog", uri="sqlite:///warehouse/catalog.db").load_table("seglog.orders")
assert table.scan().to_arrow().num_rows > 0
"""
LIBRARIES = """
import numpy, xxhash
from seglog.kernels import native
def xxh64():
    pass
xxh64.__module__ = "seglog.kernels.checksum"
data = numpy.random.default_rng(1).integers(0, 256, 4096, numpy.uint8)
for level in native.levels() if any(native.DIRECTORY.glob("*.so")) else []:
    hashed = native.Library(native.path_of(level)).function(xxh64)
    assert hashed(data, 0, data.size, numpy.uint64(5)) == xxhash.xxh64_intdigest(data, 5), level
"""
SPARK = """
from pyspark.sql import SparkSession
import seglog.spark
from seglog.spark.java import use_java
use_java()
spark = SparkSession.builder.master("local[1]").getOrCreate()
frame = {read}
assert frame.collect()
spark.stop()
"""


def run(command: Sequence[str | Path], cwd: Path = ROOT, **environment: str) -> str:
    """Run a command; return its output, or raise SystemExit with all output if it fails."""
    done = subprocess.run(  # noqa: S603 - only commands of this file and of the README
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\nstatus {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def uv(*words: str | Path) -> None:
    """Run uv with the certificates of the system and pip's index."""
    index = run([sys.executable, "-m", "pip", "config", "list"])
    address = re.search(r"^[\w.:]*index-url='(.*)'$", index, flags=re.MULTILINE)
    run(
        [Path(sys.executable).parent / "uv", *words],
        UV_SYSTEM_CERTS="1",
        UV_DEFAULT_INDEX=address[1] if address else "",
    )


def build(place: Path) -> Path:
    """Build the sdist, and the wheel from it; check their content; return the wheel."""
    uv("build", "--quiet", "--out-dir", place, ROOT)
    (wheel,), (source,) = place.glob("*.whl"), place.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    version = f"seglog-{seglog.__version__}"
    wanted = ["seglog/py.typed", "seglog/server/console/index.html", f"{version}.dist-info/licenses/LICENSE"]
    missing = [name for name in wanted if name not in names]
    foreign = [name for name in names if name.split("/")[0] not in ("seglog", "pyspark_seglog", f"{version}.dist-info")]
    with tarfile.open(source) as archive:
        there = set(archive.getnames())
    missing += [name for name in ("Makefile", "LICENSE", "tests/conftest.py") if f"{version}/{name}" not in there]
    if missing or foreign:
        raise SystemExit(f"{wheel.name}, {source.name}: missing {missing}, unexpected {foreign}")
    return wheel


class Environment:
    """An environment that contains only the wheel, one extra, and their dependencies."""

    def __init__(self, place: Path, wheel: Path, extra: str) -> None:
        self.place = place / (extra or "base")
        self.work = self.place / "work"
        uv("venv", "--quiet", "--python", sys.executable, self.place)
        named = f"seglog[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
        uv("pip", "install", "--quiet", "--python", self.place, "--constraint", CONSTRAINTS, *self._links(extra), named)
        self.work.mkdir()

    def _links(self, extra: str) -> list[str | Path]:
        """Return where uv finds pyspark as a wheel: it is published only as source, which takes a minute to build."""
        if extra not in ("spark", "all"):
            return []
        wheels = self.place.parent / "wheels"
        if not wheels.exists():
            options = ["--quiet", "--no-deps", "--wheel-dir", str(wheels), "--constraint", str(CONSTRAINTS)]
            # an older pip, as Debian has, builds without pep517 only if `wheel` is installed
            run([sys.executable, "-m", "pip", "wheel", "--use-pep517", *options, "pyspark"])
        return ["--find-links", wheels]

    def run(self, *command: str) -> str:
        """Run a command with this environment activated."""
        path = f"{self.place / 'bin'}{os.pathsep}{os.environ['PATH']}"
        java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for short runs
        return run([*command], self.work, PATH=path, PYTHONPATH="", SPARK_SUBMIT_OPTS=java)

    def python(self, program: str) -> str:
        """Run a Python program."""
        return self.run("python", "-c", program)

    @contextmanager
    def served(self) -> Iterator[str]:
        """Serve a directory with this environment's `seglog serve`; yield the address."""
        command = [str(self.place / "bin" / "seglog"), "serve", "served", "--port", "0"]
        with subprocess.Popen(command, cwd=self.work, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
            try:
                assert process.stdout is not None  # noqa: S101 - for the type checker
                yield next(found[0] for line in process.stdout if (found := re.search(r"http://\S+:\d+", line)))
            finally:
                process.terminate()


def try_base(environment: Environment, _: Environment) -> None:
    """Run the README's Python and commands, and a kernel of each library that this processor can run."""
    environment.python(LIBRARIES)
    environment.python("\n".join(readme.PYTHON))
    environment.run("bash", "-c", "\n".join(["set -e", *readme.COMMANDS]))


def try_server(environment: Environment, _: Environment) -> None:
    """Start a server."""
    with environment.served():
        pass


def try_client(environment: Environment, server: Environment) -> None:
    """Run the README's client and the whole tutorial against a server of another environment."""
    tutorial = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    with server.served() as url:
        environment.python("import seglog\n" + "\n".join(readme.CLIENT).replace(readme.ADDRESS, url))
        shown = environment.run("bash", "-c", examples.program(tutorial, "python", url))
    if "[b'invoice 1']" not in shown:
        raise SystemExit(f"the tutorial printed something else:\n{shown}")


def try_java(environment: Environment, _: Environment) -> None:
    """Find the Java that the extra installs."""
    environment.python("from seglog.spark.java import packaged_java; assert packaged_java()")


def try_jit(environment: Environment, _: Environment) -> None:
    """Let numba compile the kernels, as with a wheel without a library for the processor."""
    environment.python("import seglog.kernels.jit\n" + readme.PYTHON[0])


def try_spark(environment: Environment, _: Environment) -> None:
    """Read a log with Spark, as the README does."""
    environment.python(readme.PYTHON[0])
    batch = next(line.split("#")[0].strip() for line in readme.SPARK[0].splitlines() if line.startswith("spark."))
    environment.python(SPARK.format(read=batch))


def try_archive(environment: Environment, _: Environment) -> None:
    """Reach an object store that is not there: the extra has what is needed."""
    environment.python(
        "import seglog, obstore\nfrom seglog.archive.cloud import CloudStore\n"
        "store = CloudStore.at('s3://bucket/prefix')\nassert store.url == 's3://bucket/prefix'"
    )


def try_otel(environment: Environment, _: Environment) -> None:
    """Carry a trace in the headers of a record."""
    environment.python(
        "from opentelemetry import trace\nfrom opentelemetry.sdk.trace import TracerProvider\n"
        "from seglog.telemetry import carry\n"
        "with TracerProvider().get_tracer('here').start_as_current_span('there'):\n    assert carry()"
    )


def try_kafka(environment: Environment, _: Environment) -> None:
    """Start a broker that Kafka's clients can use."""
    environment.python(
        "from seglog.testing.kafka import KafkaBroker\nwith KafkaBroker() as kafka:\n    assert kafka.address"
    )


def try_table(environment: Environment, _: Environment) -> None:
    """Keep a table of a log, and read it."""
    environment.python(readme.PYTHON[0])
    environment.run("seglog", "table", "sync", "orders", "warehouse", "--all")
    environment.python(TABLE)


def try_all(environment: Environment, _: Environment) -> None:
    """Use client, server and Spark of one environment."""
    try_client(environment, environment)
    try_spark(environment, environment)


TRIALS: dict[str, Callable[[Environment, Environment], None]] = {
    "server": try_server,
    "": try_base,
    "archive": try_archive,
    "client": try_client,
    "java": try_java,
    "jit": try_jit,
    "kafka": try_kafka,
    "otel": try_otel,
    "spark": try_spark,
    "table": try_table,
    "all": try_all,
}


def main() -> None:
    """Build the packages, and try each extra."""
    with tempfile.TemporaryDirectory(prefix="seglog-package-") as directory:
        place = Path(directory)
        wheel = build(place)
        print(f"built {wheel.name} of {wheel.stat().st_size:,} bytes", flush=True)
        made: dict[str, Environment] = {}
        for extra, trial in TRIALS.items():
            begun = monotonic()
            made[extra] = Environment(place, wheel, extra)
            ready = monotonic()
            trial(made[extra], made["server"])
            name = f"seglog[{extra}]" if extra else "seglog"
            print(f"{name}: installed in {ready - begun:.0f} s, tried in {monotonic() - ready:.0f} s", flush=True)


if __name__ == "__main__":
    main()
