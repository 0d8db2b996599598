"""The mutation check: each line of `mutations` is taken out in turn, and some test must fail.

    python -m tests.crash.mutants [PART OF A PATH ...] [--kind KIND] [--likely] [--list] [--again]

A copy of the source is changed, one line at a time, and the tests run on it, the likeliest first, until one fails. A
failure counts if the test fails again on the changed source and passes on the unchanged one, so neither a test that is
not reliable nor a missing program is taken for a test that noticed the line. What was noticed before, with the same
module, by a test that still exists, is not run again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.crash.mutations import ROOT, Mutant, mutants
from tests.proofs import DIRECTORY, tell

CUTS, TOPIC_CUTS = "tests/crash/test_power_loss.py", "tests/crash/test_topic_power_loss.py"
REPAIRS, TOPIC_REPAIRS = "tests/crash/test_repair.py", "tests/crash/test_repair_of_topics.py"
IDENTITIES, STOPS = "tests/recovery/test_identities.py", "tests/log/test_stops.py"
LOCKS = [STOPS, IDENTITIES, "tests/log/test_stale_writer.py"]
LOCKS += ["tests/topic/test_lock_races.py", "tests/topic/test_locks.py"]
ORDER, TOPIC_ORDER = "tests/recovery/test_order_of_writes.py", "tests/topic/test_order_of_writes.py"
MANIFESTS = [IDENTITIES, "tests/recovery/test_lookups_and_manifest.py", "tests/recovery/test_rotten.py"]
STAGES = [CUTS, "tests/recovery/test_publish_faults.py", "tests/log/test_publish.py"]
LIKELY = {
    "storage/": ["tests/storage", "tests/log/test_failed_syncs.py", "tests/log/test_bad_places.py"],
    "storage/subdirectory": ["tests/storage", TOPIC_CUTS],
    "storage/local_file": ["tests/storage", "tests/log/test_descriptors.py"],
    "storage/copies": ["tests/log/test_backup_order.py", "tests/topic/test_backup.py"],
    "format/": ["tests/format", "tests/log/test_long_records.py", "tests/recovery/test_torn.py", *MANIFESTS],
    "format/laminarmq": ["tests/format/test_laminarmq.py"],
    "kernels/": ["tests/kernels"],
    "kernels/point": ["tests/segment/test_kernel_read.py", "tests/segment/test_read_many.py"],
    "kernels/aot": ["tests/kernels/test_both_ways_to_compile.py"],
    "compaction/": [
        CUTS,
        "tests/compaction/test_beside.py",
        "tests/compaction/test_rebuilt.py",
        "tests/compaction/test_ahead.py",
    ],
    "segment/": [ORDER, CUTS, "tests/segment"],
    "segment/active": [ORDER, CUTS, "tests/log/test_interrupts.py", "tests/segment/test_active.py"],
    "segment/allocated": [CUTS, "tests/recovery/test_allocated.py"],
    "segment/active_index": [CUTS, "tests/log/test_interrupts.py", "tests/segment/test_active.py"],
    "segment/active_files": ["tests/log/test_failed_syncs.py", "tests/log/test_descriptors.py", CUTS],
    "segment/follower": [IDENTITIES, "tests/recovery/test_followers.py", "tests/log/test_follow.py"],
    "segment/recovery": [ORDER, CUTS, REPAIRS, "tests/recovery/test_torn.py"],
    "log/": [ORDER, CUTS, *LOCKS, "tests/recovery/test_concurrency.py"],
    "arrow/": ["tests/arrow", "tests/log/test_arrow_streams.py"],
    "parallel/": ["tests/parallel"],
    "log/backup": [IDENTITIES, "tests/log/test_backup_order.py", "tests/topic/test_backup.py"],
    "log/catalog": [ORDER, CUTS, REPAIRS, *LOCKS],
    "log/repair/verify": ["tests/recovery/test_check_beside_writer.py", *MANIFESTS],
    "log/compaction": ["tests/compaction/test_beside.py", *LOCKS, "tests/log/test_pins.py"],
    "log/durability": [
        STOPS,
        "tests/log/test_durability.py",
        "tests/log/test_failed_syncs.py",
        "tests/log/test_flush.py",
    ],
    "log/follower": ["tests/log/test_history.py", "tests/recovery/test_followers.py", "tests/log/test_follow.py"],
    "log/history": ["tests/log/test_history.py"],
    "log/repair/file_identity": [*MANIFESTS, REPAIRS],
    "log/leases": [
        "tests/recovery/test_followers.py",
        "tests/recovery/test_concurrency.py",
        "tests/log/test_readers.py",
    ],
    "log/writer_state": [
        ORDER,
        CUTS,
        *LOCKS,
        "tests/log/test_reentry.py",
        "tests/log/test_interrupts.py",
        "tests/log/test_forks.py",
    ],
    "log/syncer": [ORDER, CUTS, *LOCKS, "tests/log/test_flush.py", "tests/log/test_failed_syncs.py"],
    "log/open_files": ["tests/log/test_descriptors.py", CUTS],
    "log/live_segments": [ORDER, CUTS, *LOCKS, "tests/log/test_truncate.py", *STAGES[1:]],
    "log/opening": [ORDER, CUTS, *LOCKS, "tests/topic/test_exchanged.py", "tests/log/test_history.py", *MANIFESTS],
    "log/locks/ownership": LOCKS,
    "log/pins": ["tests/log/test_pins.py", "tests/recovery/test_pin_faults.py"],
    "log/quarantine": [REPAIRS, CUTS, *MANIFESTS],
    "log/repair/rebuild_manifest": [*MANIFESTS, REPAIRS],
    "log/repair/repair": [
        "tests/recovery/test_order_of_repairs.py",
        REPAIRS,
        *MANIFESTS,
        "tests/log/test_live_repair.py",
    ],
    "log/staging": STAGES,
    "log/tail": ["tests/log/test_history.py", "tests/log/test_follow.py"],
    "log/view": ["tests/log/test_truncate.py", "tests/log/test_readers.py"],
    "log/locks/write_lock": LOCKS,
    "log/writer": [ORDER, CUTS, *LOCKS, "tests/log/test_pins.py", "tests/log/test_truncate.py", *STAGES[1:]],
    "topic/": [
        TOPIC_ORDER,
        TOPIC_CUTS,
        "tests/topic/test_locks.py",
        "tests/topic/test_topic.py",
        "tests/topic/test_broker.py",
    ],
    "topic/repair/journal_files": ["tests/topic/test_repair_of_transactions.py"],
    "topic/repair": [TOPIC_ORDER, TOPIC_REPAIRS, "tests/topic/test_repair.py", "tests/topic/test_layout_names.py"],
    "topic/layout/deletion": [
        TOPIC_ORDER,
        TOPIC_CUTS,
        "tests/topic/test_broker_crashes.py",
        "tests/topic/test_leftovers.py",
    ],
    "topic/layout/description": [TOPIC_CUTS, TOPIC_REPAIRS, "tests/topic/test_topic.py"],
    "topic/groups": [TOPIC_ORDER, TOPIC_CUTS, "tests/topic/groups"],
    "topic/idempotency/memory": [
        "tests/topic/test_idempotency.py",
        "tests/topic/test_once_forged.py",
        "tests/topic/test_once_batches.py",
    ],
    "topic/read_trace": [STOPS, "tests/topic/groups", "tests/topic/test_transaction.py"],
    "topic/transaction": [
        TOPIC_ORDER,
        TOPIC_CUTS,
        "tests/topic/test_transaction.py",
        "tests/topic/test_transaction_faults.py",
    ],
}
"""Where a mutant is most likely noticed, by the beginning of its path; the longest one counts."""
REST = [
    f"tests/{part}"
    for part in ("storage", "format", "kernels", "segment", "recovery", "compaction", "arrow", "log", "topic")
]
SECONDS = 1800
MOST_HINTS = 12
COMPILED = ("kernels/", "format/codec.py", "format/index.py")
"""What the compiled code of the kernels depends on, see seglog.kernels.sources."""
PYTEST = ["-x", "-m", "not proof and not deep and not spark", "--timeout=60", "--tb=no"]
PLUGINS = ["pytest_timeout", "_hypothesis_pytestplugin"]  # those of the tests; the others take a second to load
PASSED, NOTHING_COLLECTED = 0, 5


class Bench:
    """A copy of the source, in which one line at a time is taken out, and on which tests run."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._unchanged = ""  # the text of the module that a line is taken out of
        self._sound: dict[str, bool] = {}  # test -> whether it passes on the unchanged source
        for part in ("src", "tests", "docs", "benchmarks"):
            shutil.copytree(ROOT / part, directory / part, ignore=shutil.ignore_patterns("__pycache__"))
        for part in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / part, directory / part)

    @property
    def unsound(self) -> list[str]:
        """Tests that failed on a changed source but also on the unchanged one: they show nothing."""
        return sorted(test for test, passes in self._sound.items() if not passes)

    def compile_kernels(self) -> None:
        """Compile the kernels ahead of time, so that a run starts without numba. Without a linker numba does it."""
        self._run([sys.executable, "-m", "seglog.kernels.aot"], {})

    def noticed_by(self, mutant: Mutant, runs: Sequence[Sequence[str]]) -> str | None:
        """Return a test that fails without the line, and only without it; None if there is none.

        runs: the paths or tests of each run of pytest, which changes the order of paths that overlap.
        """
        with self._without(mutant) as environment:
            for paths in filter(None, runs):
                if (test := self._noticed_in(paths, mutant, environment)) is not None:
                    return test
        return None

    def _noticed_in(self, paths: Sequence[str], mutant: Mutant, environment: dict[str, str]) -> str | None:
        passed_over = list(self.unsound)
        while (failed := self._first_failure(paths, environment, passed_over)) is not None:
            if self._first_failure([failed], environment) is not None and self._is_sound(failed, mutant):
                return failed
            if failed in (*paths, *passed_over):  # a path: pytest itself was ended, and not by the missing line
                return None
            passed_over.append(failed)
        return None

    def _is_sound(self, test: str, mutant: Mutant) -> bool:
        if test not in self._sound:
            with _content(self._directory / "src" / "seglog" / mutant.path, self._unchanged):
                self._sound[test] = self._first_failure([test], {}) is None
        return self._sound[test]

    @contextmanager
    def _without(self, mutant: Mutant) -> Iterator[dict[str, str]]:
        """Take the line out; yield what the environment must have meanwhile."""
        changed = self._directory / "src" / "seglog" / mutant.path
        self._unchanged = changed.read_text()
        with _content(changed, mutant.code):
            if not mutant.path.startswith(COMPILED):
                yield {}
                return
            with tempfile.TemporaryDirectory(dir=self._directory) as cache:  # that of the unchanged kernels stays
                yield {"SEGLOG_CACHE_DIR": cache}

    def _first_failure(
        self, paths: Sequence[str], environment: dict[str, str], passed_over: Collection[str] = ()
    ) -> str | None:
        """Return the first test that fails, or the first path if pytest itself is ended; None if all pass."""
        options = [word for name in PLUGINS for word in ("-p", name)]
        options += [f"--deselect={test}" for test in passed_over] + [f"--basetemp={self._directory / 'scratch'}"]
        status, output = self._run([sys.executable, "-m", "pytest", *PYTEST, *options, *paths], environment)
        if status in (PASSED, NOTHING_COLLECTED):
            return None
        failures = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return failures[0].partition(" ")[2].partition(" - ")[0] if failures else paths[0]

    def _run(self, command: list[str], environment: dict[str, str]) -> tuple[int, str]:
        """Run a command in the copy; end it with all its children after SECONDS."""
        source = f"{self._directory / 'src'}{os.pathsep}{self._directory}"
        own = {"PYTHONPATH": source, "SEGLOG_PROOFS": str(self._directory / ".proofs"), "COLUMNS": "500"}
        run = subprocess.Popen(
            command,
            cwd=self._directory,
            env={**os.environ, **own, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = run.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            output = ""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        return run.returncode, output


@contextmanager
def _content(path: Path, text: str) -> Iterator[None]:
    """Give a module another text within the context, without any compiled form of it."""
    before = path.read_text()
    try:
        _write(path, text)
        yield
    finally:
        _write(path, before)


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):  # valid by its size and full seconds
        compiled.unlink()


def likely(mutant: Mutant) -> list[list[str]]:
    """Return the tests that most likely notice a mutant, each to run by itself."""
    best = max((start for start in LIKELY if mutant.path.startswith(start)), key=len)
    return [[path] for path in LIKELY[best]]


def fingerprint(mutant: Mutant) -> str:
    """Return what an earlier result is valid for: the module without the line."""
    return hashlib.sha256(f"{mutant.path}\n{mutant.code}".encode()).hexdigest()[:16]


def is_there(test: str) -> bool:
    """Whether a test still exists; of one that a class inherits, whether the class does."""
    path, _, name = test.partition("::")
    if not (ROOT / path).is_file():
        return (ROOT / path).is_dir()
    first = name.partition("::")[0].partition("[")[0]
    return re.search(rf"^(def|class) {re.escape(first)}\b", (ROOT / path).read_text(), re.MULTILINE) is not None


class Results:
    """Which test noticed which mutant, by fingerprint, and which tests noticed any of a module; kept for later runs."""

    def __init__(self, *, again: bool) -> None:
        self._file = DIRECTORY / "mutants" / "noticed.json"
        kept = json.loads(self._file.read_text()) if self._file.exists() else {"lines": {}, "modules": {}}
        self._lines: dict[str, str] = {
            mark: test for mark, test in kept["lines"].items() if is_there(test) and not again
        }
        self._modules: dict[str, list[str]] = kept["modules"]

    def __getitem__(self, mutant: Mutant) -> str | None:
        return self._lines.get(fingerprint(mutant))

    def hints(self, mutant: Mutant) -> list[str]:
        """Return the tests that noticed other lines of the module: one of them may notice this one."""
        return [test for test in self._modules.get(mutant.path, []) if is_there(test)]

    def add(self, mutant: Mutant, test: str) -> None:
        """Note a test, and keep all that is known by now."""
        self._lines[fingerprint(mutant)] = test
        self._modules[mutant.path] = [test, *(one for one in self._modules.get(mutant.path, []) if one != test)][
            :MOST_HINTS
        ]
        self._file.parent.mkdir(parents=True, exist_ok=True)
        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps({"lines": self._lines, "modules": self._modules}, indent=1))
        partial.replace(self._file)


def check(found: list[Mutant], results: Results, *, only_likely: bool) -> int:
    """Try every mutant that was not noticed before, all of them with the likeliest tests before any with the rest."""
    rounds: list[tuple[str, Callable[[Mutant], Sequence[Sequence[str]]]]] = [
        ("not noticed by tests of its module", lambda mutant: [results.hints(mutant)]),
        ("not noticed by the likeliest", likely),
        ("SURVIVED", lambda _: [REST]),
    ]
    tried = {mutant for mutant in found if results[mutant] is not None}
    with tempfile.TemporaryDirectory() as directory, suppress(KeyboardInterrupt):
        bench = Bench(Path(directory))
        bench.compile_kernels()
        for missed, tests in rounds[:2] if only_likely else rounds:
            for mutant in [one for one in found if results[one] is None]:
                test = bench.noticed_by(mutant, tests(mutant))
                if test is not None:
                    results.add(mutant, test)
                tried.add(mutant)
                print(f"{mutant.kind:9} {mutant.name:32} {test or missed}: {mutant.text}", flush=True)
        for test in bench.unsound:
            print(f"fails without any change, and shows nothing: {test}")
    return summary(found, tried, results)


def summary(found: list[Mutant], tried: set[Mutant], results: Results) -> int:
    """Print and keep the figures of each kind; 1 if a line was not noticed, or not tried."""
    noticed = [mutant for mutant in found if results[mutant] is not None]
    for kind in sorted({mutant.kind for mutant in found}):
        lines, of_tried, of_noticed = (sum(one.kind == kind for one in some) for some in (found, tried, noticed))
        print(f"{kind:9} {lines} lines, {of_tried} tried, {of_noticed} noticed")
        tell("mutants", kind=kind, lines=lines, noticed=of_noticed, violations=of_tried - of_noticed)
    return 0 if len(noticed) == len(found) else 1


def main() -> int:
    """Run the check; exit status 1 if a line is not noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.mutants", description=main.__doc__)
    parser.add_argument("wanted", nargs="*", help="parts of paths; without any, all modules")
    parser.add_argument("--kind", action="append", help="only lines of this kind (repeatable)")
    parser.add_argument("--likely", action="store_true", help="run only the likeliest tests of each line")
    parser.add_argument("--list", action="store_true", help="print the lines, run nothing")
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    options = parser.parse_args()
    found = [one for one in mutants(options.wanted) if not options.kind or one.kind in options.kind]
    if options.list:
        print("\n".join(f"{mutant.kind:9} {mutant.name:32} {mutant.text}" for mutant in found))
        return 0
    return check(found, Results(again=options.again), only_likely=options.likely)


if __name__ == "__main__":
    sys.exit(main())
