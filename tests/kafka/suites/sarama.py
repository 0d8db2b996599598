"""sarama's functional tests, through toxiproxy, which cuts connections as the tests want.

They expect five brokers with three replicas. Here the five proxies lead to one broker, and topics have one replica.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers.tools import free_port, server

from tests.kafka.suites.fetching import go_module, once, run
from tests.kafka.suites.go_tests import run_tests
from tests.kafka.suites.sides import Settings, started
from tests.kafka.suites.verdicts import Verdicts

MODULE, VERSION = "github.com/IBM/sarama", "v1.61.1"
TOXIPROXY = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0"
TITLE = f"sarama {VERSION[1:]} (its functional tests)"
FIRST_PORT, PROXIES = 29091, 5  # as in the tests
SECONDS = 1200.0


def prepared() -> Path:
    """Return the directory of the built tests and of toxiproxy.

    Raises:
        Missing: Go is missing, or cannot fetch or build them.
    """

    def make(directory: Path) -> None:
        source = go_module(MODULE, VERSION, directory)
        path = source / "functional_test.go"
        path.write_text(re.sub(r"(ReplicationFactor: +)3,", r"\g<1>1,", path.read_text()))
        run(["go", "test", "-c", "-tags=functional", "-o", directory / "sarama.test", "."], cwd=source)
        run(["go", "install", TOXIPROXY], env={"GOBIN": str(directory)})

    return once("sarama", make)


def verdicts(side: str, only: str = "") -> Verdicts:
    """Run the tests that use a broker, or those whose name contains `only`, on a side."""
    place = prepared()
    settings = Settings(creates=False, advertised=FIRST_PORT)
    with started(side, settings) as address, _proxies(place / "server", address) as proxy:
        given = {"TOXIPROXY_ADDR": proxy, "KAFKA_VERSION": "4.3.1"}
        names = only or "|".join(_functional(place / "source"))
        return run_tests(place / "sarama.test", f"^({names})$", cwd=place / "source", env=given, seconds=SECONDS)


def _functional(source: Path) -> list[str]:
    """Return the names of the tests in the files that need a broker."""
    texts = [path.read_text() for path in source.glob("functional_*_test.go")]
    return sorted(name for text in texts for name in re.findall(r"^func (Test\w+)\(t \*testing", text, re.MULTILINE))


@contextmanager
def _proxies(program: Path, address: str) -> Iterator[str]:
    """Start toxiproxy with five proxies to the one broker; yield the address of its API."""
    port = free_port()
    with server(
        [str(program), "-host", "127.0.0.1", "-port", str(port)], port, output=program.with_name("toxiproxy.log")
    ):
        for number in range(PROXIES):
            proxy = {"name": f"kafka{number + 1}", "listen": f"127.0.0.1:{FIRST_PORT + number}", "upstream": address}
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/proxies", json.dumps(proxy).encode(), {"Content-Type": "application/json"}
            )
            urllib.request.urlopen(request).close()  # noqa: S310 - as above
        yield f"http://127.0.0.1:{port}"
