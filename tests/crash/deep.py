"""The long proofs: rounds with ever new seeds until every target is reached. Can be stopped at any time and goes on.

    python -m tests.crash.deep [--only PROOF ...] [--hours H] [--workers N] [--report] [--document FILE]

Each round is a process's work of seconds to a minute; what it counted is kept in docs/long-proofs, a line a round, with
the commit it ran on: rounds of several machines add up there. A round that finds a violation is kept with its seed,
which repeats it, and the run ends with status 1. `make deep` runs all.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.crash.sketch import Sketch
from tests.proofs import DIRECTORY, LONG, described, tell, write_between

Counts = dict[str, int]
HERE = Path(__file__).parents[2]
RECORD = HERE / "docs" / "long-proofs"
SCRATCH = DIRECTORY / "deep"
KEYS = "states-*.npy"


class Proof(NamedTuple):
    """A proof with a long version. module: has `one_round(seed, root)`; until: the count that has a target.

    keeps: whether a round leaves something behind (the keys of states, a corpus for later ones).
    """

    name: str
    module: str
    until: str
    target: int
    keeps: bool = False

    @property
    def root(self) -> Path:
        """Where it keeps that."""
        return SCRATCH / self.name.replace(" ", "-")


PROOFS = [
    Proof("crash states", "tests.crash.test_power_loss", "states", 10_200_000, keeps=True),  # and the sketch's error
    Proof("crash states of topics", "tests.crash.test_topic_power_loss", "states", 100_000),
    Proof("cut repairs", "tests.crash.test_repair", "states", 50_000),
    Proof("kill -9", "tests.crash.test_kill", "kills", 5_000),
    Proof("strace", "tests.crash.test_strace", "runs", 5_000),
    Proof("refused calls", "tests.crash.test_faults", "runs", 100_000),
    Proof("damage", "tests.crash.test_damage", "damages", 200_000),
    Proof("machines", "tests.crash.test_machine", "examples", 20_000),
    Proof("fuzzers", "tests.fuzz.runner", "targets", 720, keeps=True),  # of ten seconds each: two hours
]


class Round(NamedTuple):
    """One round of a proof, done. failure: what was raised, empty where all held; commit: of what was proven."""

    proof: str
    seed: int
    seconds: float
    counts: Counts
    failure: str
    commit: str


def run_round(proof: Proof, seed: int) -> Round:
    """Run one round in this process; Ctrl-C is for the one that waits for it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    began, counts, failure = time.monotonic(), Counts(), ""
    with tempfile.TemporaryDirectory() as scratch:
        root = proof.root if proof.keeps else Path(scratch)
        root.mkdir(parents=True, exist_ok=True)
        try:
            counts = import_module(proof.module).one_round(seed, root)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding, kept with its seed
            failure = "".join(traceback.format_exception_only(error)).replace(f"{HERE}/", "")  # no path of a machine
    return Round(proof.name, seed, round(time.monotonic() - began, 1), counts, failure, commit())


def commit() -> str:
    """Return the short name of the commit that is checked out, "?" if unknown."""
    run = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return run.stdout.strip() or "?"


class Ledger:
    """The rounds done so far, and a sketch of the states they have opened."""

    def __init__(self) -> None:
        self._file = RECORD / "rounds.jsonl"
        lines = self._file.read_text().splitlines(keepends=True) if self._file.exists() else []
        whole = [line for line in lines if line.endswith("}\n")]  # a run that was killed may have left half a line
        if whole != lines:
            self._file.write_text("".join(whole))
        self.rounds = [Round(**json.loads(line)) for line in whole]
        self._states = Sketch(RECORD / "states.sketch")

    def add(self, done: Round, proof: Proof) -> None:
        """Keep a round, and the states that it has left the keys of."""
        for path in proof.root.glob(KEYS):
            self._states.add(np.load(path))
            self._states.keep()
            path.unlink()
        self.rounds.append(done)
        with self._file.open("a") as file:
            file.write(json.dumps(done._asdict()) + "\n")

    def take_failed(self, names: set[str]) -> list[tuple[str, int]]:
        """Return (proof, seed) of the rounds that failed, and forget that they did: they are to be run again."""
        failed = [done for done in self.rounds if done.failure and done.proof in names]
        self.rounds = [done for done in self.rounds if done not in failed]
        self._file.write_text("".join(json.dumps(done._asdict()) + "\n" for done in self.rounds))
        return [(done.proof, done.seed) for done in failed]

    def next_seed(self, proof: Proof) -> int:
        """Return a seed that no round of a proof has had. CI's seeds are small: these begin after them."""
        return 1 + max((done.seed for done in self.rounds if done.proof == proof.name), default=999)

    def counts(self, proof: Proof) -> Counts:
        """Return the sums over a proof's rounds; equal states met in several rounds count once, see `Sketch`."""
        total = Counts(rounds=0)
        for done in self.rounds:
            if done.proof == proof.name:
                total["rounds"] += 1
                for name, value in done.counts.items():
                    total[name] = total.get(name, 0) + value
        if proof.until == "states" and proof.keeps:
            total["states"] = self._states.count()
        return total


def due(ledger: Ledger, proofs: list[Proof], started: dict[str, int]) -> Iterator[tuple[Proof, int]]:
    """Give (proof, seed) of rounds to run: those that failed, then of the proof that is farthest from its target.

    Ends when all have reached theirs; a proof that fails again is not gone on with.
    """
    reached = {proof.name: ledger.counts(proof).get(proof.until, 0) for proof in proofs}
    seeds = {proof.name: ledger.next_seed(proof) for proof in proofs}
    names = {proof.name: proof for proof in proofs}
    yield from [(names[name], seed) for name, seed in ledger.take_failed(set(names))]
    while True:
        reached |= started
        broken = {done.proof for done in ledger.rounds if done.failure}  # more of the same would tell nothing new
        waiting = [proof for proof in proofs if reached[proof.name] < proof.target and proof.name not in broken]
        if not waiting:
            return
        proof = min(waiting, key=lambda one: reached[one.name] / one.target)
        yield proof, seeds[proof.name]
        seeds[proof.name] += 1


def work(ledger: Ledger, proofs: list[Proof], workers: int, seconds: float) -> None:
    """Run rounds on several processes until the targets or the time are reached."""
    end, reached = time.monotonic() + seconds, dict[str, int]()
    rounds, running = due(ledger, proofs, reached), set[Future[Round]]()
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        while True:
            while len(running) < workers and time.monotonic() < end and (task := next(rounds, None)):
                running.add(pool.submit(run_round, *task))
            if not running:
                return
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                done = future.result()
                proof = next(one for one in proofs if one.name == done.proof)
                ledger.add(done, proof)
                reached[done.proof] = ledger.counts(proof).get(proof.until, 0)
                outcome = "VIOLATION" if done.failure else described(done.counts)
                print(f"{done.proof}, seed {done.seed}, {done.seconds:.0f} s: {outcome}", flush=True)


def report(ledger: Ledger, proofs: list[Proof]) -> int:
    """Print and keep what all rounds came to; return 1 where one has failed."""
    failures = [done for done in ledger.rounds if done.failure]
    for proof in proofs:
        counts = ledger.counts(proof)
        share = counts.get(proof.until, 0) / proof.target
        broken = sum(done.proof == proof.name for done in failures)
        print(f"{proof.name}: {described(counts)}; {share:.1%} of {proof.target:,} {proof.until}, {broken} violations")
        if counts["rounds"]:
            tell(LONG + proof.name, **{**counts, "violations": broken})
    for done in failures:
        print(f"\n{done.proof}, seed {done.seed}:\n{done.failure}")
    return 1 if failures else 0


def table(ledger: Ledger, proofs: list[Proof]) -> str:
    """Return a Markdown table of what all rounds came to."""
    lines = ["| proof | reached of what is wanted | counted |", "|---|---:|---|"]
    for proof in proofs:
        counts = ledger.counts(proof)
        reached = f"{counts.get(proof.until, 0):,} of {proof.target:,} {proof.until}"
        lines.append(f"| {proof.name} | {reached} | {described(counts)} |")
    return "\n".join(lines)


def main() -> int:
    """Run rounds and report."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.deep", description=main.__doc__)
    parser.add_argument("--only", action="append", choices=[proof.name for proof in PROOFS])
    parser.add_argument("--hours", type=float, default=float("inf"))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--report", action="store_true", help="only print what was reached so far")
    parser.add_argument("--document", type=Path, help="write it into the table of this document, too")
    options = parser.parse_args()
    proofs = [proof for proof in PROOFS if not options.only or proof.name in options.only]
    RECORD.mkdir(parents=True, exist_ok=True)
    ledger = Ledger()
    if not options.report:
        with suppress(KeyboardInterrupt):  # the rounds under way are lost, those before are kept
            work(ledger, proofs, options.workers, options.hours * 3600)
    if options.document:
        write_between(options.document, "long proofs", table(ledger, proofs))
    return report(ledger, proofs)


if __name__ == "__main__":
    sys.exit(main())
