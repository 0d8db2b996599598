"""franz-go's tests of groups and of transactions: 50,000 records go through chains of consumers and producers."""

from __future__ import annotations

from pathlib import Path

from tests.kafka.suites.fetching import go_module, once, run
from tests.kafka.suites.go_tests import run_tests
from tests.kafka.suites.sides import Settings, started
from tests.kafka.suites.verdicts import Verdicts

MODULE, VERSION = "github.com/twmb/franz-go", "v1.22.2"
TITLE = f"franz-go {VERSION[1:]} (`pkg/kgo`, TestGroupETL and TestTxnEtl)"
RECORDS = 50_000
SECONDS = 900.0


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
    """Run both tests, or the one that is named, on a side."""
    place = prepared()
    with started(side, Settings()) as address:
        given = {"KGO_SEEDS": address, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": str(RECORDS), "KGO_LOG_LEVEL": "none"}
        names = f"^({only or 'TestGroupETL|TestTxnEtl'})$"
        return run_tests(place / "kgo.test", names, cwd=place / "source" / "pkg" / "kgo", env=given, seconds=SECONDS)
