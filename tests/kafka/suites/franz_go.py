"""franz-go's tests of its client; in those of groups and transactions records go through chains of consumers.

Those of share groups are left out, and 50,000 records instead of 500,000 go through each chain.
"""

from __future__ import annotations

from pathlib import Path

from tests.kafka.suites.fetching import go_module, once, run
from tests.kafka.suites.go_tests import run_tests
from tests.kafka.suites.sides import Settings, started
from tests.kafka.suites.verdicts import Verdicts

MODULE, VERSION = "github.com/twmb/franz-go", "v1.22.2"
TITLE = f"franz-go {VERSION[1:]} (`pkg/kgo`, without share groups)"
LEFT_OUT = "Share"
RECORDS = 50_000
SECONDS = 3600.0


def prepared() -> Path:
    """Return the directory of the built tests.

    Raises:
        Missing: Go is missing, or cannot fetch or build them.
    """

    def make(directory: Path) -> None:
        source = go_module(MODULE, VERSION, directory)
        run(["go", "test", "-c", "-o", directory / "kgo.test", "./pkg/kgo"], cwd=source)

    return once("franz-go", make)


def verdicts(side: str, only: str = "") -> Verdicts:
    """Run all tests, or those whose name contains `only`, on a side."""
    place = prepared()
    with started(side, Settings()) as address:
        given = {"KGO_SEEDS": address, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": str(RECORDS), "KGO_LOG_LEVEL": "none"}
        left_out = ("-test.skip", LEFT_OUT)
        cwd = place / "source" / "pkg" / "kgo"
        return run_tests(place / "kgo.test", only or "^Test", cwd=cwd, env=given, seconds=SECONDS, options=left_out)
