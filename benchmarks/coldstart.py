"""`python -m benchmarks coldstart`: measure first uses of a fresh installation of the wheel.

Builds the wheel, installs it into an empty venv, and measures the first use of each kind in new processes: wall time,
and CPU time, because other work on the machine only affects the former. --wheel uses an existing wheel. The row of user
nobody needs root. Spark's rows need pyspark in this environment; they separate the start of the session from the
first call, and show the same call on Parquet. Their CPU time excludes the JVM.
"""

from __future__ import annotations

import argparse
import os
import pwd
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BATCH = """
import sys, tempfile, pyarrow, seglog
with tempfile.TemporaryDirectory() as place, seglog.open(place + "/log") as log:
    log.append_batch(pyarrow.table({"key": [b"k"] * 1000, "value": [b"v" * 100] * 1000}))
    assert log.to_arrow().num_rows == 1000
"""
SPARK = """
import sys, time, pyarrow, seglog
from pyspark.sql import SparkSession
from seglog.spark import register
place, format, what = sys.argv[1:]
with seglog.open(place + "/log") as log:
    log.append_batch(pyarrow.table({"value": [b"v" * 100] * 1000}))
seglog.open(place + "/copy").close()
start = time.monotonic()
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
register(spark)
started = time.monotonic()
if what == "count":
    assert spark.read.format("seglog").load(place + "/log").count() == 1000
elif format == "seglog":
    rows = spark.range(1000).selectExpr("cast(cast(id as string) as binary) as value")
    rows.write.format("seglog").mode("append").save(place + "/copy")
else:
    rows = spark.range(1000).selectExpr("cast(cast(id as string) as binary) as value")
    rows.write.parquet(place + "/parquet")
done = time.monotonic()
spark.stop()
print("took", started - start, done - started)
"""


class Row(NamedTuple):
    """One line of the table: seconds."""

    work: str
    wall: float
    cpu: float


def main(arguments: list[str]) -> int:
    """Measure and print the table; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks coldstart", description=__doc__)
    parser.add_argument("--wheel", type=Path, help="default: built from this checkout")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="seglog-cold-") as scratch:
        place = Path(scratch)
        place.chmod(0o755)
        wheel = options.wheel or _built(place)
        python = _installed(place / "venv", wheel)
        print(f"\n{wheel.name}, load {os.getloadavg()[0]:.1f}\n\n| work | wall | CPU |\n|---|---|---|", flush=True)
        for row in _rows(place, python):
            print(f"| {row.work} | {row.wall:.2f} s | {row.cpu:.2f} s |", flush=True)
        print(f"\nsite-packages of the base install: {(place / 'sizes').read_text()}")
    return 0


def _built(place: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(place), str(ROOT)]
    subprocess.run(command, check=True)
    (wheel,) = place.glob("*.whl")
    return wheel


def _installed(venv: Path, wheel: Path) -> Path:
    """Install the wheel alone, record its size, then add the server."""
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = venv / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, str(wheel)], check=True)
    packages = next((venv / "lib").glob("python*")) / "site-packages"
    (venv.parent / "base").symlink_to(packages)
    (venv.parent / "sizes").write_text(sizes(packages))
    subprocess.run([*pip, f"{wheel}[server]"], check=True)
    return python


def sizes(packages: Path) -> str:
    """Return the size of an installation without pip, and its largest packages, as text."""
    largest = sorted(((_size(path), path.name) for path in _installed_in(packages)), reverse=True)[:4]
    named = ", ".join(f"{name} {size / 1e6:.0f}" for size, name in largest)
    return f"{megabytes(packages):.0f} MB ({named})"


def megabytes(packages: Path) -> float:
    """Return the size of an installation without pip, in units of 10^6 bytes."""
    return sum(map(_size, _installed_in(packages))) / 1e6


def _installed_in(packages: Path) -> list[Path]:
    return [path for path in packages.iterdir() if path.name not in ("pip", "setuptools")]


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size


def _rows(place: Path, python: Path) -> Iterator[Row]:
    plain = {"PATH": os.environ["PATH"], "HOME": str(place)}
    batch = [str(python), "-c", BATCH]
    yield _timed("first batch and scan", lambda: subprocess.run(batch, env=plain, check=True))
    yield _timed("the same, next process", lambda: subprocess.run(batch, env=plain, check=True))
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody").pw_uid
        poor = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
        system = Path("/usr/bin/python3")  # the venv's may be in a home directory closed to other users
        poor["PYTHONPATH"] = str((place / "base").resolve())
        command = [str(system if system.exists() else python), "-c", BATCH]
        with suppress(PermissionError, subprocess.CalledProcessError):
            yield _timed(
                "user nobody, read-only package, no HOME",
                partial(subprocess.run, command, env=poor, user=nobody, check=True, cwd="/"),
            )
    yield _served(place, python)
    with suppress(ImportError):
        import pyspark  # noqa: F401, PLC0415 - only if it is installed

        yield from _spark_rows(place)


def _spark_rows(place: Path) -> Iterator[Row]:
    for form, what in (("seglog", "count"), ("seglog", "write"), ("parquet", "write")):
        directory = tempfile.mkdtemp(dir=place)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        job = subprocess.run(
            [sys.executable, "-c", SPARK, directory, form, what], check=True, stdout=subprocess.PIPE, text=True
        )
        session, first = (float(seconds) for seconds in job.stdout.split()[-2:])
        yield Row(f"Spark's first {what}, {form}, after {session:.1f} s for the session", first, _cpu_since(before))


def _timed(work: str, call: Callable[[], object]) -> Row:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    call()
    return Row(work, time.monotonic() - start, _cpu_since(before))


def _cpu_since(before: resource.struct_rusage) -> float:
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _served(place: Path, python: Path) -> Row:
    port = 3917
    command = [str(python), "-m", "seglog", "serve", str(place / "topics"), "--port", str(port)]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while time.monotonic() - start < 60:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=1):
                break
            time.sleep(0.02)
        wall = time.monotonic() - start
    finally:
        server.terminate()
        server.wait(30)
    return Row("seglog serve is ready", wall, _cpu_since(before))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
