"""librdkafka's own tests, of the sources that npm has: each in a process of its own, quick (`-Q`), without local ones.

A test is one of the list in test.c that uses a broker. Those of share groups, and those that need a broker with
authorization, SASL, TLS or an older version, apply to neither broker as it is started here and are not run. Topics
have one replica, not three.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.kafka.suites.fetching import npm, once, run
from tests.kafka.suites.sides import Settings, kafka_jars, started
from tests.kafka.suites.verdicts import FAILED, PASSED, SKIPPED, Verdict, Verdicts

PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
TITLE = "librdkafka 2.15.1 (its own tests, quick)"
ENTRY = re.compile(r"_TEST\((\d{4}_\w+),\s*([\w |]+?)\s*[,)](.*?)(?=\n    _TEST|\n#|\n\n)", re.DOTALL)
NOT_RUN = {  # number -> why it applies to neither broker
    "0009": "mock", "0097": "TLS", "0115": "authorization", "0119": "authorization", "0126": "SASL", "0135": "SASL",
    "0142": "SASL", "0101": "several brokers", "0150": "mock", "0139": "mock",
}  # fmt: skip
IN_PARTS = {"0081_admin", "0103_transactions"}
NO_PARTS = {"do_test_apis", "do_test_acls_count"}  # they only call others, or are called
SHARE_GROUPS = range(155, 191)
AT_ONCE = 4
SECONDS = 240.0
STATES = {"PASSED": PASSED, "SKIPPED": SKIPPED}
TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
}


class Test(NamedTuple):
    """A test of the list. scenario: the settings of the broker that it expects; part: a function of it, "" for all."""

    name: str
    scenario: str
    part: str = ""

    @property
    def run(self) -> str:
        """What runs in one process: the tests of one number, or a part of one."""
        return f"{self.name[:4]} {self.part}"

    @property
    def shown(self) -> str:
        """Its name in the results."""
        return f"{self.name} {self.part}".strip()


def prepared() -> Path:
    """Return the directory of the built tests.

    Raises:
        Missing: npm, make or a compiler is missing, or the build failed.
    """

    def make(directory: Path) -> None:
        source = npm(PACKAGE, directory) / "deps" / "librdkafka"
        common = source / "tests" / "test.c"
        common.write_text(
            re.sub(r"(NewTopic_new\(topicname, partition_cnt, )replication_factor,", r"\g<1>1,", common.read_text())
        )
        run(["bash", "./configure", "--disable-ssl", "--disable-gssapi", "--disable-curl"], cwd=source)
        run(["make", "-j2", "libs"], cwd=source)
        run(["make", "-C", "tests", "-j2", "build"], cwd=source)

    return once("librdkafka", make) / "package" / "deps" / "librdkafka" / "tests"


def listed(source: str) -> Iterator[Test]:
    """Yield the tests of test.c that use a broker and apply."""
    for name, flags, rest in ENTRY.findall(source):
        known = {"TEST_F_LOCAL", "TEST_F_MANUAL", "TEST_F_KNOWN_ISSUE"} & set(flags.replace("|", " ").split())
        if known or name[:4] in NOT_RUN or int(name[:4]) in SHARE_GROUPS or name.endswith(("_mock", "_local")):
            continue
        scenario = re.search(r'\.scenario = "([^",]+)', rest)
        yield Test(name, scenario[1] if scenario else "default")


def verdicts(side: str, only: str = "") -> Verdicts:
    """Run the tests whose name begins with `only` on a side."""
    place = prepared()
    listing = listed((place / "test.c").read_text())
    tests = [part for one in listing if one.name.startswith(only) for part in in_parts(one, place)]
    found: Verdicts = {}
    for scenario, numbers in _by_scenario(tests).items():
        with (
            started(side, Settings(creates=scenario != "noautocreate")) as address,
            tempfile.TemporaryDirectory() as directory,
            ThreadPoolExecutor(AT_ONCE) as threads,
        ):
            run_one = partial(_verdicts, place, _environment(Path(directory), place, address), Path(directory))
            for one in threads.map(run_one, numbers.values()):
                found |= one
    return found


def in_parts(test: Test, place: Path) -> list[Test]:
    """Return the parts of a test of many requests, one for each, and any other test as it is."""
    source = place / f"{test.name.replace('_', '-', 1)}.c"
    if test.name not in IN_PARTS or not source.exists():
        return [test]
    parts = re.findall(r"^(?:static void )?(do_test_\w+)\(", source.read_text(), re.MULTILINE)
    return [test._replace(part=part) for part in dict.fromkeys(parts) if part not in NO_PARTS]


def _by_scenario(tests: list[Test]) -> dict[str, dict[str, list[Test]]]:
    """Return scenario -> what runs in one process -> its tests."""
    found: dict[str, dict[str, list[Test]]] = {}
    for one in tests:
        found.setdefault(one.scenario, {}).setdefault(one.run, []).append(one)
    return found


def _environment(directory: Path, place: Path, address: str) -> dict[str, str]:
    """Return the variables of the tests; write their configuration, and the scripts of Kafka that they use."""
    settings = directory / "test.conf"
    given = (f"metadata.broker.list={address}", "test.topic.random=true", "test.timeout.multiplier=3")
    settings.write_text("\n".join([*given, ""]))
    scripts = directory / "kafka" / "bin"
    scripts.mkdir(parents=True)
    for name, tool in TOOLS.items():
        script = scripts / name
        script.write_text(f"#!/bin/sh\nexec java -Xmx256m -cp '{kafka_jars()}/*' {tool} \"$@\"\n")
        script.chmod(0o755)
    libraries = [place.parent / "src", place.parent / "src-cpp", place / "interceptor_test", place]
    return {
        **os.environ,
        "RDKAFKA_TEST_CONF": str(settings),
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "KAFKA_PATH": str(scripts.parent),
        "BROKERS": address,
        "TEST_KAFKA_VERSION": "4.3.1",
        "RDKAFKA_GITVER": "2.15.1@v2.15.1",
    }


def _verdicts(place: Path, environment: dict[str, str], directory: Path, tests: list[Test]) -> Verdicts:
    """Run the tests of one number and scenario; how they ended is in the report that they write."""
    first = tests[0]
    target, output = directory / f"{first.shown}.json", directory / f"{first.shown}.log"
    command = [place / "test-runner", "-p1", "-L", "-K", "-Q", "-s", first.scenario]
    given = {**environment, "TESTS": first.name[:4], "TEST_REPORT": str(target)}
    given |= {"SUBTESTS": f"{first.part}:"} if first.part else {}
    with output.open("wb") as said:
        try:
            subprocess.run(command, cwd=place, env=given, stdout=said, stderr=said, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return dict.fromkeys((one.shown for one in tests), Verdict(FAILED, f"it took over {SECONDS:.0f} s"))
    text = re.sub(r"\x1b\[[\d;]*m", "", output.read_text(errors="replace"))
    if not target.exists():
        return dict.fromkeys((one.shown for one in tests), Verdict(FAILED, f"no report: {text[-300:]}"))
    found = json.loads(target.read_text(), strict=False)["tests"]
    if first.part and f"[ {first.part}:" not in text:
        return {first.shown: Verdict(SKIPPED, "it needs no broker")}
    return {one.shown: reported(found[one.name]["state"], one.name, text) for one in tests}


def reported(state: str, name: str, text: str) -> Verdict:
    """Return how a test ended, and why: from its first failure, or from the summary that is printed at the end."""
    known = STATES.get(state, FAILED)
    if known == FAILED and (first := re.search(r'### Test "[^<].*? failed at .*? ###\n(.*)', text)):
        return Verdict(known, first[1])
    found = re.search(rf"^\|\s*{name}\s+\|.*?\|\s*[\d.]+s\s+\|(.*(?:\n(?![|#]).*)*)", text, re.MULTILINE)
    return Verdict(known, found[1] if found and known != PASSED else "")
