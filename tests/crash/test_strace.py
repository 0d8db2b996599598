"""The real program, whose n-th system call fails or is its last: strace injects errors and kills, for every n.

strace is attached to a process that has imported everything and opened nothing, so that n counts calls of the log.
What is done is in programs/log_story.py, what must be there in programs/ledger.py.
"""

from __future__ import annotations

import random
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import seglog
from seglog.client import Client
from seglog.terminal.exits import Exit
from tests import tools
from tests.crash.programs.ledger import Ledger
from tests.crash.programs.log_story import STORY
from tests.crash.programs.log_writer import config_of
from tests.crash.programs.zygote import Child, Zygote, environment
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Served
    from tests.proofs import Tell

KEYS, SEGMENT_BYTES = 7, 2048
SYNCS, WRITES, READS = "fsync,fdatasync", "pwrite64", "pread64"
NAMES = "rename,renameat,renameat2,link,linkat,unlink,unlinkat"
MADE = "ftruncate,mkdir,mkdirat"
WATCHED = ",".join((SYNCS, WRITES, READS, NAMES, MADE, "openat"))


class Case(NamedTuple):
    """What is injected into which calls; into every n-th of them."""

    calls: str
    effect: str
    step: int = 1
    forever: bool = False

    def inject(self, name: str, n: int) -> str:
        """Return what strace is to inject into the n-th call of a name."""
        return f"inject={name}:{self.effect}:when={n}{'+' if self.forever else ''}"


CASES = {
    "syncs fail": Case(SYNCS, "error=EIO"),
    "syncs fail without space": Case(SYNCS, "error=ENOSPC", 6),
    "killed at syncs": Case(SYNCS, "signal=KILL"),
    "writes fail": Case(WRITES, "error=EIO", 6),
    "writes fail without space": Case(WRITES, "error=ENOSPC"),
    "writes fail from then on": Case(WRITES, "error=ENOSPC", 6, forever=True),
    "writes are interrupted": Case(WRITES, "error=EINTR", 12),
    "killed at writes": Case(WRITES, "signal=KILL"),
    "reads fail": Case(READS, "error=EIO"),
    "names are refused": Case(NAMES, "error=EIO"),
    "killed at names": Case(NAMES, "signal=KILL"),
    "nothing can be made or cut": Case(MADE, "error=EIO"),
    "killed at what is made or cut": Case(MADE, "signal=KILL"),
    "no file can be opened": Case("openat", "error=EMFILE", 5),
}
ROUND_RUNS = 60

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]


class Strace:
    """strace on a process that is running; it ends with that."""

    def __init__(self, pid: int, inject: list[str], trace: Path) -> None:
        options = [f"-e{kind}" for kind in (f"trace={WATCHED}", *inject)]
        command = ["strace", "-f", "-o", str(trace), *options, "-p", str(pid)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert self._process.stderr is not None
        self.said = self._process.stderr.readline()

    @property
    def is_attached(self) -> bool:
        return "attached" in self.said

    def __enter__(self) -> Strace:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.communicate(timeout=HANG_SECONDS)
        except subprocess.TimeoutExpired:  # it waits for a thread of a process that an injected SIGKILL has ended
            self._process.kill()
            self._process.communicate(timeout=HANG_SECONDS)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    tools.require("strace")
    with Zygote() as zygote:
        yield zygote


class Story:
    """The story run once, with an injected fault."""

    def __init__(self, zygote: Zygote, root: Path, inject: list[str], **more: Any) -> None:
        """more: what is otherwise than usual in the request, the story itself perhaps."""
        usual = {"seed": 5, "keys": KEYS, "segment_bytes": SEGMENT_BYTES, "flush_records": 1, "token": 0, "batch": 0}
        self.request: dict[str, Any] = {"path": str(root / "log"), **usual, "create": True, **more}
        self.ledger = Ledger(keys=KEYS, segment_bytes=SEGMENT_BYTES, keeps_tombstones=True, strict=False)
        self.trace = root / "trace"
        self.poisoned = 0
        child = zygote.child("log_story", **self.request)
        try:
            self._tell(child, inject)
        finally:
            zygote.forget(child)

    def _tell(self, child: Child, inject: list[str]) -> None:
        assert next(child.lines()) == {"waits": True}
        with Strace(child.pid, inject, self.trace) as strace:
            if not strace.is_attached:
                tools.forbidden("strace", f"processes may not be traced here: {strace.said}")
            child.say("go on")
            for line in child.lines():
                self.ledger.hear(line)
                self.poisoned += line.get("poisoned", False)
            self.status = child.reap()

    def calls(self) -> Counter[str]:
        """Return how many calls it made, by name; of several threads the most, as strace counts each for itself."""
        found = Counter(re.findall(r"^(\d+) +(\w+)\(", self.trace.read_text(), re.MULTILINE))
        most: Counter[str] = Counter()
        for (_, name), count in found.items():
            most[name] = max(most[name], count)
        return most

    def check(self) -> None:
        """Open what is there for real, and compare; a log that was never acknowledged is created now."""
        begun = self.ledger.counts["acknowledged"] > 0
        with seglog.open(self.request["path"], None if begun else config_of(self.request)) as log:
            self.ledger.settle(log)
            log.append(b"goes on", key=b"k0")


class Counts(Counter[str]):
    """What runs of the story count."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(("runs", "killed", "raised", "poisoned", "acknowledged", "lost", "invented"), 0))

    def run(self, zygote: Zygote, root: Path, case: Case, name: str, n: int, **more: Any) -> None:
        """Tell the story with a case's n-th call of a name gone wrong, check what is there, and count."""
        root.mkdir()
        inject = case.inject(name, n)
        try:
            story = Story(zygote, root, [inject], **more)
            story.check()
            hit = story.status == -signal.SIGKILL
            assert hit == ("KILL" in case.effect) or (not hit and story.calls()[name] < n), "it ended otherwise"
        except BaseException as error:
            error.add_note(f"strace -e {inject}, {more}; what is left is in {root}")
            raise
        shutil.rmtree(root)
        counted = story.ledger.counts
        self.update(runs=1, killed=hit, poisoned=story.poisoned, raised=counted["refused"])
        self.update(acknowledged=counted["acknowledged"])


def count_calls(zygote: Zygote, root: Path, **more: Any) -> Counter[str]:
    """Return how many calls of each kind the story makes when nothing goes wrong."""
    root.mkdir(exist_ok=True)
    story = Story(zygote, root, [], **more)
    assert story.ledger.counts["refused"] == 0
    calls = story.calls()
    story.check()
    shutil.rmtree(root)
    return calls


def one_round(seed: int, root: Path) -> dict[str, int]:
    """Tell ROUND_RUNS stories in another order, from another seed, each with another call gone wrong."""
    draw, counts = random.Random(seed), Counts()
    with Zygote() as zygote:
        healthy = count_calls(zygote, root / "healthy")
        for number in range(ROUND_RUNS):
            case = draw.choice([*CASES.values()])
            name = draw.choice([name for name in case.calls.split(",") if healthy[name]])
            more = {
                "seed": draw.random(),
                "story": draw.sample(STORY, len(STORY)),
                "flush_records": draw.choice([1, 4, None]),
                "allocate_bytes": draw.choice([0, 700]),
            }
            counts.run(zygote, root / f"{seed}-{number}", case, name, draw.randint(1, healthy[name]), **more)
    return dict(counts)


@pytest.fixture(scope="module")
def healthy(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    return count_calls(zygote, tmp_path_factory.mktemp("healthy"))


@pytest.mark.parametrize(
    "case", ["syncs fail", "killed at syncs", "writes fail without space", "killed at writes", "reads fail"]
)
def test_whichever_call_goes_wrong_with_space_allocated_nothing_acknowledged_is_lost(
    case: str, zygote: Zygote, tmp_path: Path, tell: Tell
) -> None:
    more = {"allocate_bytes": 700}
    healthy, counts = count_calls(zygote, tmp_path / "healthy", **more), Counts()
    for name in CASES[case].calls.split(","):
        for n in range(1, healthy[name] + 1, 2 * CASES[case].step):
            counts.run(zygote, tmp_path / f"{name}-{n}", CASES[case], name, n, **more)
    assert counts["runs"] > 0
    tell("strace", scenario=f"{case}, space allocated", **counts)


@pytest.mark.parametrize("case", CASES)
def test_whichever_call_goes_wrong_nothing_acknowledged_is_lost(
    case: str, zygote: Zygote, healthy: Counter[str], tmp_path: Path, tell: Tell
) -> None:
    counts, calls = Counts(), CASES[case].calls.split(",")
    for name in calls:
        for n in range(1, healthy[name] + 1, CASES[case].step):
            counts.run(zygote, tmp_path / f"{name}-{n}", CASES[case], name, n)
    assert counts["runs"] > 0
    tell("strace", scenario=case, **counts)


# --- the commands -----------------------------------------------------------------------------------------------------

LINES = [b"line %d " % number + b"x" * 110 for number in range(5)]


def append_lines(root: Path, inject: list[str]) -> tuple[list[int], int]:
    """Run `seglog append --lines --sync` under strace; return the offsets that it acknowledged, and how it ended."""
    root.mkdir()
    options = ["-f", "-o", str(root / "trace"), f"-etrace={SYNCS},{WRITES}", *(f"-e{one}" for one in inject)]
    command = ["strace", *options, sys.executable, "-m", "seglog", "append", str(root / "log"), "--lines", "--sync"]
    ended = subprocess.run(
        [*command, "--segment-bytes", "512"],
        input=b"\n".join(LINES),
        check=False,
        capture_output=True,
        timeout=HANG_SECONDS,
        env=environment(PYTHONDONTWRITEBYTECODE="1"),
    )
    if b"ptrace" in ended.stderr and not ended.stdout:
        tools.forbidden("strace", f"processes may not be traced here: {ended.stderr.decode()}")
    return [int(line) for line in ended.stdout.split(b"\n")[:-1]], ended.returncode


@pytest.mark.parametrize("name", [*SYNCS.split(","), WRITES])
def test_the_append_command_never_prints_an_offset_that_is_lost(
    zygote: Zygote, tmp_path: Path, name: str, tell: Tell
) -> None:
    assert append_lines(tmp_path / "healthy", []) == ([*range(len(LINES))], 0)
    calls = len(re.findall(rf"\b{name}\(", (tmp_path / "healthy" / "trace").read_text()))
    counts = Counter({"runs": 0, "killed": 0, "raised": 0, "acknowledged": 0, "lost": 0, "invented": 0})
    for n in range(1, calls + 1):
        root, kills = tmp_path / str(n), n % 2
        offsets, code = append_lines(root, [f"inject={name}:{'signal=KILL' if kills else 'error=EIO'}:when={n}"])
        with seglog.open(root / "log") as log:
            assert not log.recovery.damaged
            found = [record.value for record in log.scan()]
        assert offsets == [*range(len(offsets))]
        assert found == LINES[: len(found)]
        assert len(offsets) <= len(found) <= len(offsets) + 1, f"{name} {n}: printed {offsets}, and {found} are there"
        assert code == (-signal.SIGKILL if kills else Exit.IO) or (not kills and len(offsets) == len(LINES))
        counts.update(runs=1, killed=kills, raised=not kills, acknowledged=len(offsets))
    tell("strace", scenario=f"seglog append, {name}", **counts)


@pytest.mark.parametrize("effect", ["error=EIO", "error=ENOSPC", "signal=KILL"])
def test_what_a_server_has_acknowledged_as_durable_is_there_after_its_syncs_failed(
    zygote: Zygote, serve: Callable[..., Served], tmp_path: Path, effect: str, tell: Tell
) -> None:
    server, counts = serve(), Counter({"runs": 1, "raised": 0, "acknowledged": 0, "lost": 0, "invented": 0})
    places: dict[tuple[int, int], bytes] = {}
    with Client(server.url, retries=0) as client:
        topic = client.create_topic("orders", partitions=2)
        with Strace(server.process.pid, [f"inject=fdatasync:{effect}:when=4"], tmp_path / "trace") as strace:
            if not strace.is_attached:
                tools.forbidden("strace", f"processes may not be traced here: {strace.said}")
            for number in range(40):
                value = b"%d" % number
                try:
                    place = topic.append(value, partition=number % 2, ack="durable")
                except seglog.SeglogError:
                    counts["raised"] += 1
                else:
                    assert places.setdefault(place, value) == value
    assert 0 < counts["raised"] < 40
    server.kill()
    with seglog.Topic.open(server.root / "orders") as stored:
        found = {(part, one.offset): one.value for part in range(2) for one in stored.partition(part).scan()}
    assert found.items() >= places.items(), f"lost: {places.items() - found.items()}"
    assert len(set(found.values())) == len(found)
    assert set(found.values()) <= {b"%d" % number for number in range(40)}
    counts["acknowledged"] = len(places)
    tell("strace", scenario=f"seglog serve, {effect}", **counts)
