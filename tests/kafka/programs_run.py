"""Clients that are programs of other languages: Go's, Java's and kcat. Each is built once and run with a topic.

Maven and Go fetch what they need into their own caches, outside of the repository.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import uuid4

from tests.tools import find
from tests.waiting import HANG_SECONDS

HERE = Path(__file__).parent / "programs"
GO = {"franz-go": "franz_go", "sarama": "sarama"}
COUNT = 100
HAS_NONE = "has none"
"""What the table shows for a feature that a client does not have."""


def run(command: Sequence[object], *, given: str = "", seconds: float = HANG_SECONDS) -> str:
    """Return what a program prints. Raises if it fails."""
    done = subprocess.run(
        [str(word) for word in command], input=given, capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode:
        raise OSError(f"{Path(str(command[0])).name}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


def reported(text: str) -> dict[str, str]:
    """Return feature -> "yes", or why not, from lines "FEATURE ok" or "FEATURE ERROR"."""
    pairs = (line.partition(" ") for line in text.splitlines())
    return {
        feature.replace("_", " "): "yes" if said == "ok" else f"no: {said}".replace("|", "/")[:80]
        for feature, _, said in pairs
    }


def try_go(program: str, address: str) -> dict[str, str]:
    """Build and run a program of Go; return feature -> "yes", or why not."""
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    with tempfile.TemporaryDirectory() as directory:
        source, target = Path(directory) / "source", Path(directory) / "program"
        source.mkdir()
        for path in (HERE / program).iterdir():
            (source / path.name).write_bytes(path.read_bytes())
        subprocess.run(["go", "build", "-o", target, "."], cwd=source, check=True, env=environment)
        return reported(run([target, address, f"t-{uuid4().hex}"]))


# --- Java -------------------------------------------------------------------------------------------------------------


@functools.cache
def classpath() -> str:
    """Return the jars of Kafka's clients and tools, which Maven fetches at the first call. Needs Maven."""
    with tempfile.TemporaryDirectory() as directory:
        found = Path(directory) / "classpath"
        command = ["mvn", "-q", "-B", "-f", HERE / "java" / "pom.xml", "dependency:build-classpath"]
        run([*command, f"-Dmdep.outputFile={found}"])
        return found.read_text().strip()


def java(*words: object, seconds: float = HANG_SECONDS) -> str:
    """Run a class of the jars, or a source file with them; return what it prints. Needs a JDK."""
    return run([find("java"), "-Xmx256m", "-cp", classpath(), *words], seconds=seconds)


def try_java(address: str, offered: Iterable[str]) -> dict[str, str]:
    """Use the features by Kafka's Java clients; return feature -> "yes", or why not.

    offered: names of the features that are tried only if the server has them.
    """
    return reported(java(HERE / "java" / "Features.java", address, f"t-{uuid4().hex}", *offered))


# --- kcat -------------------------------------------------------------------------------------------------------------


def try_kcat(address: str) -> dict[str, str]:
    """Use the features of kcat, which is not an admin client; return feature -> "yes", or why not."""
    topic, lines = f"t-{uuid4().hex}", "".join(f"k:{number}\n" for number in range(COUNT))
    produce = ["kcat", "-b", address, "-P", "-t", topic, "-K", ":"]
    read = ["-o", "beginning", "-e", "-q", "-f", "%s\n"]
    uses = {
        "produce": lambda: run([*produce, "-X", "acks=1"], given=lines),
        "idempotent": lambda: run([*produce, "-X", "enable.idempotence=true", "-z", "lz4"], given=lines),
        "transactional": lambda: _expect(_kcat_transaction(address, f"{topic}-transactions", lines), 1),
        "consume": lambda: _expect(run(["kcat", "-b", address, "-C", "-t", topic, *read])),
        "group": lambda: _expect(run(["kcat", "-b", address, *read[2:], *EARLIEST, "-G", f"g-{topic}", topic])),
    }
    found = {"admin": HAS_NONE, "new group protocol": HAS_NONE}
    for feature, use in uses.items():
        try:
            use()
            found[feature] = "yes"
        except (OSError, AssertionError, subprocess.SubprocessError) as error:
            found[feature] = f"no: {error}".replace("\n", " ")[:80]
    return found


EARLIEST = ("-X", "auto.offset.reset=earliest")


def _kcat_transaction(address: str, topic: str, lines: str) -> str:
    """Produce in one transaction, which kcat commits at its end; return the values."""
    run(["kcat", "-b", address, "-P", "-t", topic, "-K", ":", "-X", f"transactional.id={topic}"], given=lines)
    return run(["kcat", "-b", address, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%s\n"])


def _expect(text: str, times: int = 2) -> None:
    values = text.split()
    assert sorted(values, key=int) == sorted([*map(str, range(COUNT))] * times, key=int), f"{len(values)} records"
