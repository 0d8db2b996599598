"""Runs targets: in this process as plain functions, or in a child each under atheris, whose loop ends its process.

The state of a fuzzing is its directory: `<root>/<target>/corpus` holds the inputs that reached something new, `found`
those that showed a defect; run it again and it goes on from there. Knows what a target is, and no target.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import importlib.util
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
TARGETS = tuple(sorted(path.stem for path in (HERE / "targets").glob("[a-z]*.py")))
SECONDS = 10
RSS_MIB = 2048  # of the whole process
ROOM_BYTES = 4 * 1024**3  # of address space beyond what importing took: no length field makes more of it
INPUT_SECONDS = 25
LONGEST = 4096


class Target(Protocol):
    """A module of targets/. One may have LONGEST, the bytes of its longest input."""

    def seeds(self) -> Iterator[bytes]:
        """Yield inputs that are what they should be."""
        ...

    def target(self, data: bytes) -> None:
        """Take one input; raise only where something is wrong with seglog."""
        ...


class Outcome(NamedTuple):
    """What a child did.

    executions: inputs tried; coverage: edges seen; rss: the most memory of the process, in MiB; corpus: inputs kept;
    found: new defects.
    """

    target: str
    executions: int
    coverage: int
    rss: int
    corpus: int
    found: tuple[Path, ...]
    said: str


def load(name: str) -> Target:
    """Return a target."""
    return cast("Target", importlib.import_module(f"tests.fuzz.targets.{name}"))


def committed(name: str) -> list[bytes]:
    """Return a target's inputs that came of fuzzing: corpus/<target>.txt, an input a line in base64, # a remark."""
    path = HERE / "corpus" / f"{name}.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [base64.b64decode(line, validate=True) for line in lines if line and not line.startswith("#")]


# --- in the child -----------------------------------------------------------------------------------------------------


def fuzz_here(name: str, arguments: list[str]) -> None:
    """Fuzz a target in this process, which ends with it. seglog must not have been imported before."""
    import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]  # noqa: PLC0415 - for Linux alone

    with atheris.instrument_imports(include=["seglog"], exclude=_kernels()):
        target = load(name)
        for seed in target.seeds():
            target.target(seed)  # imports and compiles what is loaded only when needed
    _bound_memory()
    atheris.Setup(["fuzz", *arguments], target.target)
    atheris.Fuzz()


def _kernels() -> list[str]:
    """Return the modules that numba compiles: it cannot compile what atheris adds, and nothing is counted in there."""
    found = importlib.util.find_spec("seglog")
    assert found is not None and found.submodule_search_locations is not None
    folder = Path(found.submodule_search_locations[0]) / "kernels"
    return ["seglog.kernels", *(f"seglog.kernels.{path.stem}" for path in folder.glob("*.py"))]


def _bound_memory() -> None:
    """Let a huge allocation fail at once, touched or not."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM_BYTES, used + ROOM_BYTES))


# --- in the parent ----------------------------------------------------------------------------------------------------


def fuzz(name: str, root: Path, *, seconds: int = SECONDS, seed: int = 1) -> Outcome:
    """Fuzz a target in a child process; what it found stays in `root`."""
    corpus, found = root / name / "corpus", root / name / "found"
    for directory in (corpus, found):
        directory.mkdir(parents=True, exist_ok=True)
    known = set(found.iterdir())
    for data in (*load(name).seeds(), *committed(name)):
        (corpus / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
    arguments = [
        f"-seed={seed}",
        f"-max_total_time={seconds}",
        f"-rss_limit_mb={RSS_MIB}",
        f"-timeout={INPUT_SECONDS}",
        f"-max_len={getattr(load(name), 'LONGEST', LONGEST)}",
        "-print_final_stats=1",
        f"-artifact_prefix={found}/",
        str(corpus),
    ]
    command = [sys.executable, "-m", "tests.fuzz", name, "--in-this-process", *arguments]
    done = subprocess.run(command, capture_output=True, check=False, timeout=seconds + 10 * INPUT_SECONDS)
    said = done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")
    new = tuple(sorted(set(found.iterdir()) - known))
    outcome = Outcome(name, *_figures(said), len(list(corpus.iterdir())), new, said)
    if done.returncode and not new:
        raise AssertionError(f"fuzzing {name} failed before any input did (seed {seed}):\n{_end(said)}")
    return outcome


def _figures(said: str) -> tuple[int, int, int]:
    patterns = (r"stat::number_of_executed_units:\s*(\d+)", r"cov: (\d+)", r"stat::peak_rss_mb:\s*(\d+)")
    runs, coverage, rss = (max(map(int, re.findall(pattern, said)), default=0) for pattern in patterns)
    return runs, coverage, rss


def story(outcome: Outcome) -> str:
    """Return what went wrong in a child: its inputs, how to see it again, and the end of what it said."""
    again = "\n".join(f"python -m tests.fuzz {outcome.target} --replay {path}" for path in outcome.found)
    return f"{outcome.target}: {len(outcome.found)} found; to repeat:\n{again}\n{_end(outcome.said)}"


def _end(said: str) -> str:
    lines = [line for line in said.splitlines() if not line.startswith(("INFO: Instrumenting", "#"))]
    return "\n".join(lines[-60:])


def one_round(seed: int, root: Path, *, seconds: int = SECONDS) -> dict[str, int]:
    """Fuzz every target for a while, from the inputs in `root`; return the counts. AssertionError on a finding."""
    outcomes = [fuzz(name, root, seconds=seconds, seed=seed) for name in TARGETS]
    failed = [outcome for outcome in outcomes if outcome.found]
    assert not failed, f"seed {seed}\n" + "\n\n".join(map(story, failed))
    return {
        "executions": sum(outcome.executions for outcome in outcomes),
        "targets": len(outcomes),
        "crashes": 0,
    }
