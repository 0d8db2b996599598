"""kafka-python's integration tests, of its source distribution, with all codecs.

The distribution lacks two modules of the tests, of which an external broker needs a class with two attributes. The
clients negotiate the versions of requests, instead of taking those of KAFKA_VERSION for granted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from tests.kafka.suites.fetching import once, run, sdist
from tests.kafka.suites.sides import Settings, started
from tests.kafka.suites.verdicts import FAILED, PASSED, SKIPPED, Verdict, Verdicts

VERSION = "3.0.12"
TITLE = f"kafka-python {VERSION} (its integration tests)"
SERVICE = """\
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def stop(self):
        pass


class SpawnedService:
    def __init__(self, *given):
        raise RuntimeError("KAFKA_URI names the broker")
"""
SECONDS = 900.0
FILES = [f"test/integration/test_{part}_integration.py" for part in ("admin", "consumer", "producer")]
"""The others start brokers of their own, with SASL and TLS."""


def prepared() -> Path:
    """Return the directory of the sources, beside which is an environment with the codecs.

    Raises:
        Missing: pip cannot fetch something.
    """

    def make(directory: Path) -> None:
        source = sdist("kafka-python", VERSION, directory)
        source.rename(directory / "source")
        tests = directory / "source" / "test"
        (tests / "__init__.py").touch()
        (tests / "service.py").write_text(SERVICE)
        for path in (tests / "integration").glob("*.py"):
            text = path.read_text().replace("'api_version': env_kafka_version()", "'api_version': None")
            path.write_text(text)
        run([sys.executable, "-m", "venv", directory / "venv"])
        codecs = f"kafka-python[crc32c,lz4,snappy,zstd,testing]=={VERSION}"
        run([directory / "venv" / "bin" / "python", "-m", "pip", "install", "-q", codecs])

    return once("kafka-python", make)


def verdicts(side: str, only: str = "") -> Verdicts:
    """Run the tests whose name contains `only` on a side."""
    place = prepared()
    with started(side, Settings()) as address, tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        python, options = place / "venv" / "bin" / "python", ("-q", "-p", "no:cacheprovider", "--timeout", "120")
        command = [python, "-m", "pytest", *options]
        command += [*FILES, f"--junitxml={report}", *(["-k", only] if only else [])]
        given = {**os.environ, "KAFKA_URI": f"kafka://{address}", "KAFKA_VERSION": "4.3.1", "KAFKA_ROOT": directory}
        subprocess.run(
            command, cwd=place / "source", env=given, stdout=subprocess.DEVNULL, timeout=SECONDS, check=False
        )
        return read_junit(report.read_text())


def read_junit(text: str) -> Verdicts:
    """Return how each test of a JUnit report ended; one with several entries (of its set-up, too) by the worst."""
    found: Verdicts = {}
    for case in ElementTree.fromstring(text).iter("testcase"):  # noqa: S314 - pytest has just written it
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        problem = next((one for one in case if one.tag in {"failure", "error", "skipped"}), None)
        if problem is None:
            found.setdefault(name, Verdict(PASSED))
            continue
        state = SKIPPED if problem.tag == "skipped" else FAILED
        found[name] = Verdict(state, problem.get("message") or "")
    return found
