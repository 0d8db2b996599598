"""Install the sdist as a user does, into empty environments, and run the README in each.

pip installs the base from the sources. uv installs the wheel of the same sources with each extra alone, because it
links files from its cache instead of copying them. The tutorial runs in the environment of the client. The packages are
those of constraints.txt. With --keep, the sdist and the wheel are kept once all of this has passed. With --installers,
each program that installs or builds a package does so from the sources instead, also where no linker is found or where
it fails. Exits with status 1 at the first command that fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from benchmarks.coldstart import BATCH, megabytes

import seglog
from seglog.kernels.aot import levels_of_machine
from tools import examples, readme
from tools import uv as installer
from tools.uv import CONSTRAINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).parents[1]
BASE_MB = 320  # the most that the base install may have
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
for level in native.levels():
    hashed = native.Library(native.path_of(level)).function(xxh64)
    assert hashed(data, 0, data.size, numpy.uint64(5)) == xxhash.xxh64_intdigest(data, 5), level
"""


def run(command: Sequence[str | Path], cwd: Path = ROOT, **environment: str) -> str:
    """Run a command; return its output, or raise SystemExit with all output if it fails."""
    done = subprocess.run(  # noqa: S603 - only commands of this file and of the README
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\nstatus {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def uv(*words: str | Path, **environment: str) -> None:
    """Run uv with the certificates of the system and pip's index."""
    run([installer.program(), *words], ROOT, **installer.settings(), **environment)


def unpacked(place: Path) -> Path:
    """Build the sdist, check what it contains, and return its unpacked sources: they have no compiled library."""
    uv("build", "--quiet", "--sdist", "--out-dir", place, ROOT)
    (packed,) = place.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(place, filter="data")
    source = place / f"seglog-{seglog.__version__}"
    missing = [name for name in ("Makefile", "LICENSE", "tests/conftest.py") if not (source / name).exists()]
    if missing or any(source.rglob("*.so")):
        raise SystemExit(f"{packed.name}: missing {missing}, or it contains compiled code")
    return source


def build(source: Path) -> Path:
    """Build the wheel from sources whose kernels an installation has compiled; check its content; return it."""
    uv("build", "--quiet", "--wheel", "--out-dir", source.parent, source)
    (wheel,) = source.parent.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    version = f"seglog-{seglog.__version__}"
    wanted = ["seglog/py.typed", "seglog/server/console/index.html", f"{version}.dist-info/licenses/LICENSE"]
    missing = [name for name in wanted if name not in names]
    missing += [level for level in levels_of_machine() if not any(name.endswith(f".{level}.so") for name in names)]
    foreign = [name for name in names if name.split("/")[0] not in ("seglog", "pyspark_seglog", f"{version}.dist-info")]
    foreign += [line for line in metadata.splitlines() if line.startswith("Requires-Dist: numba") and ";" not in line]
    if missing or foreign:
        raise SystemExit(f"{wheel.name}: missing {missing}, unexpected {foreign}")
    return wheel


class Environment:
    """An empty environment, if wanted with the pip that Python brings along, and a directory to work in."""

    def __init__(self, place: Path, *, pip: bool = False) -> None:
        self.place = place
        self.work = place / "work"
        if pip:
            run([sys.executable, "-m", "venv", place])
        else:
            uv("venv", "--quiet", "--python", sys.executable, place)
        self.work.mkdir()

    def pip_install(self, *words: str | Path, **environment: str) -> None:
        """Install with this environment's pip and the constraints."""
        command = [self.place / "bin" / "python", "-m", "pip", "install", "--quiet", *words]
        run(command, ROOT, **{"PIP_CONSTRAINT": str(CONSTRAINTS), **environment})

    def add(self, wheel: Path, extra: str) -> None:
        """Install the wheel with an extra, by uv."""
        named = f"seglog[{extra}] @ {wheel.as_uri()}"
        uv("pip", "install", "--quiet", "--python", self.place, "--constraint", CONSTRAINTS, named)

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
    """Run the README's Python and commands with the compiled kernels of this wheel."""
    check_kernels(environment)
    environment.python("\n".join(readme.PYTHON))
    environment.run("bash", "-c", "\n".join(["set -e", *readme.COMMANDS]))


def check_kernels(environment: Environment) -> None:
    """Load each library that this processor can run; print the size, and the time of the first batch and scan."""
    environment.python(LIBRARIES)
    (packages,) = (environment.place / "lib").glob("python*/site-packages")
    size, unwanted = megabytes(packages), [path.name for path in packages.glob("*numba*")]
    begun = monotonic()
    bare: list[str | Path] = [
        "env",
        "-i",
        environment.place / "bin" / "python",
        "-B",
        "-c",
        BATCH,
    ]  # no HOME, nothing is written
    run(bare, environment.work)
    print(f"  {size:.0f} MB, first batch and scan in {monotonic() - begun:.2f} s", flush=True)
    if size > BASE_MB or unwanted:
        raise SystemExit(
            f"the base install has {size:.0f} MB, at most {BASE_MB} are allowed; not allowed at all: {unwanted}"
        )


def try_server(environment: Environment, _: Environment) -> None:
    """Start a server."""
    with environment.served():
        pass


def try_client(environment: Environment, server: Environment) -> None:
    """Run the README's client and the whole tutorial against a server of another environment."""
    tutorial = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    with server.served() as url:
        environment.python("\n".join(readme.CLIENT).replace(readme.ADDRESS, url))
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
    environment.python("\n".join([readme.PYTHON[0], *readme.SPARK, "assert orders.count()"]))


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
    """Use several extras of one environment; Spark and the tutorial have run in those of their own."""
    for trial in (try_kafka, try_archive, try_java, try_table):
        trial(environment, environment)


TRIALS: dict[str, Callable[[Environment, Environment], None]] = {
    "": try_base,
    "server": try_server,
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


def install_with_pip(source: Path, environment: Environment, version: str) -> None:
    """Install with a version of pip."""
    environment.pip_install("--upgrade", f"pip{version}")
    environment.pip_install(source)


def install_with_uv(source: Path, environment: Environment, **variables: str) -> None:
    """Install with uv."""
    uv("pip", "install", "--quiet", "--python", environment.place, "--constraint", CONSTRAINTS, source, **variables)


def install_with_build(source: Path, environment: Environment) -> None:
    """Build a wheel with `python -m build`, and install it."""
    environment.pip_install("build")
    run([environment.place / "bin" / "python", "-m", "build", "--wheel", source])
    (wheel,) = (source / "dist").glob("*.whl")
    environment.pip_install(wheel)


INSTALLERS: dict[str, Callable[[Path, Environment], None]] = {
    "pip 23.0": partial(install_with_pip, version="==23.0"),
    "the newest pip": partial(install_with_pip, version=""),
    "uv": install_with_uv,
    "build": install_with_build,
}


def install_without_libraries(source: Path, environment: Environment, programs: Path, *, with_uv: bool) -> None:
    """Install where nothing, or nothing that works, links: numba compiles, and `--version` says so."""
    if with_uv:
        install_with_uv(source, environment, PATH=str(programs))
    else:
        environment.pip_install(source, PATH=str(programs))
    environment.run("python", "-c", BATCH)
    shown = environment.run("seglog", "--version")
    if "numba" not in shown:
        raise SystemExit(f"`seglog --version` does not say that numba compiles the kernels: {shown}")


def try_installers(place: Path) -> None:
    """Install the sources with each installer, and without a linker that works."""
    for name, install in INSTALLERS.items():
        with _fresh(place, name) as (source, environment):
            install(source, environment)
            check_kernels(environment)
    empty, failing = place / "empty", place / "failing"
    for programs in (empty, failing):
        programs.mkdir()
    (failing / "cc").write_text("#!/bin/sh\nexit 1\n")
    (failing / "cc").chmod(0o755)
    for name, programs, with_uv in (
        ("no linker", empty, False),
        ("a linker that fails", failing, False),
        ("uv and no linker", empty, True),
    ):
        with _fresh(place, name) as (source, environment):
            install_without_libraries(source, environment, programs, with_uv=with_uv)


@contextmanager
def _fresh(place: Path, name: str) -> Iterator[tuple[Path, Environment]]:
    """Yield sources without compiled libraries, and an empty environment; say what was tried, and how long it took."""
    begun = monotonic()
    with tempfile.TemporaryDirectory(dir=place) as directory:
        yield unpacked(Path(directory)), Environment(Path(directory) / "environment", pip=True)
    print(f"{name}: installed from the sources and tried in {monotonic() - begun:.0f} s", flush=True)


def try_extras(place: Path) -> None:
    """Install the base with pip from the sources, and each extra with uv from their wheel; try each."""
    source, made = unpacked(place), {"": Environment(place / "base", pip=True)}
    begun = monotonic()
    made[""].pip_install(source)
    wheel = build(source)
    print(f"built {wheel.name} of {wheel.stat().st_size:,} bytes in {monotonic() - begun:.0f} s", flush=True)
    for extra, trial in TRIALS.items():
        begun = monotonic()
        if extra not in made:
            made[extra] = Environment(place / extra)
            made[extra].add(wheel, extra)
        ready = monotonic()
        trial(made[extra], made["server"] if extra else made[""])
        name = f"seglog[{extra}]" if extra else "seglog"
        print(f"{name}: installed in {ready - begun:.0f} s, tried in {monotonic() - ready:.0f} s", flush=True)


def main() -> None:
    """Try the extras, or the installers."""
    parser = argparse.ArgumentParser(prog="python -m tools.package", description=__doc__)
    parser.add_argument("--installers", action="store_true", help="install with pip 23.0, the newest pip, uv and build")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="keep the sdist and the wheel that were tried")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="seglog-package-") as directory:
        place = Path(directory)
        if options.installers:
            try_installers(place)
        else:
            try_extras(place)
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            for tried in (*place.glob("*.tar.gz"), *place.glob("*.whl")):
                shutil.copy(tried, options.keep)


if __name__ == "__main__":
    main()
