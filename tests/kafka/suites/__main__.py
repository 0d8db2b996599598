"""Suites that others wrote, run against Kafka 4.3.1 and against this server, with counts.

    python -m tests.kafka.suites                              every suite on both brokers: over an hour
    python -m tests.kafka.suites librdkafka --side seglog     one suite on one broker
    python -m tests.kafka.suites sarama --only TestFuncProducing
    python -m tests.kafka.suites --saved                      what the last runs have found

What is needed (npm and a C compiler for librdkafka, Go for franz-go and sarama, a JDK and Maven for Kafka, its programs
and Spark) is fetched and built once in .bench/; a suite whose tools are missing is skipped, with a note, and fails if
SEGLOG_REQUIRE_TOOLS is set. A suite that was run on one broker is compared with its last run on the other one.
`configs` compares answers instead of tests: the command fails if one differs that tests/kafka/suites/expected.py does
not list.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Protocol

from tests.kafka.suites import (
    configs,
    connect,
    franz_go,
    kafka_python,
    librdkafka,
    mirrormaker,
    sarama,
    spark,
    streams,
    verifiable,
)
from tests.kafka.suites.expected import unexpected
from tests.kafka.suites.fetching import PLACE
from tests.kafka.suites.sides import SIDES, Missing
from tests.kafka.suites.verdicts import Verdict, Verdicts, report
from tests.tools import REQUIRED

RESULTS = PLACE / "results"


class Suite(Protocol):
    """A module of a suite."""

    TITLE: str
    verdicts: Callable[[str, str], Verdicts]


SUITES = {
    "librdkafka": librdkafka,
    "kafka-python": kafka_python,
    "sarama": sarama,
    "franz-go": franz_go,
    "streams": streams,
    "verifiable": verifiable,
    "connect": connect,
    "mirrormaker": mirrormaker,
    "spark": spark,
    "configs": configs,
}


def save(suite: str, side: str, found: Verdicts) -> None:
    """Keep what a run has found."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{suite}-{side}.json").write_text(json.dumps(found, indent=1, sort_keys=True))


def saved(suite: str) -> Iterator[tuple[str, Verdicts]]:
    """Yield each side on which a suite was run, and what its last run has found."""
    for side in SIDES:
        path = RESULTS / f"{suite}-{side}.json"
        if path.exists():
            yield side, {name: Verdict(*one) for name, one in json.loads(path.read_text()).items()}


def main(arguments: list[str]) -> int:
    """Run suites and print their counts.

    Returns 1 if a suite that lists the known differences has found another, or has not run although it must.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.kafka.suites", description="Run suites and print their counts."
    )
    parser.add_argument("suites", nargs="*", help=f"of {', '.join(SUITES)}; all without a name")
    parser.add_argument("--side", choices=SIDES, action="append", help="the broker; both without it")
    parser.add_argument("--only", default="", help="the beginning or a part of the names of tests")
    parser.add_argument("--saved", action="store_true", help="run nothing, and print what the last runs have found")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.suites if name not in SUITES]:
        parser.error(f"no suite {unknown[0]}")
    status = 0
    for name in options.suites or SUITES:
        found = dict(saved(name)) if not options.only else {}
        try:
            for side in [] if options.saved else options.side or SIDES:
                found[side] = SUITES[name].verdicts(side, options.only)
                if not options.only:
                    save(name, side, found[side])
        except Missing as error:
            print(f"({name}: skipped, {error})", flush=True)
            status |= bool(os.environ.get(REQUIRED))
            continue
        print(report(SUITES[name].TITLE, {title: found[side] for side, title in SIDES.items() if side in found}))
        known = getattr(SUITES[name], "KNOWN", None)
        if known is not None and len(found) == len(SIDES) and not options.only:
            unknown = [*unexpected(*(found[side] for side in SIDES), known)]
            print("\n".join(["Unexpected:", *unknown] if unknown else ["Nothing unexpected."]))
            status |= bool(unknown)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
