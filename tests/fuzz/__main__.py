"""`python -m tests.fuzz TARGET|all`: fuzz for a while, continue from the inputs in a directory, or replay an input."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.fuzz.runner import SECONDS, TARGETS, fuzz, fuzz_here, load, story


def main() -> int:
    """Run the command line; return 1 on a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", choices=[*TARGETS, "all"])
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for each target")
    parser.add_argument("--seed", type=int, default=1, help="of the fuzzer's chance")
    parser.add_argument("--root", type=Path, default=Path(".fuzz"), help="where corpora and findings are kept")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="give one input to the target, without atheris")
    args = parser.parse_args()
    if args.replay is not None:
        load(args.target).target(args.replay.read_bytes())
        return 0
    worst = 0
    for name in TARGETS if args.target == "all" else [args.target]:
        outcome = fuzz(name, args.root.absolute(), seconds=args.seconds, seed=args.seed)
        print(
            f"{name}: {outcome.executions:,} runs, {outcome.coverage:,} edges, {outcome.corpus:,} inputs kept, "
            f"{outcome.rss:,} MiB of memory, {len(outcome.found)} found",
            flush=True,
        )
        if outcome.found:
            print(story(outcome), flush=True)
            worst = 1
    return worst


if __name__ == "__main__":
    if "--in-this-process" in sys.argv:  # what the runner starts; the rest is the fuzzer's own
        fuzz_here(sys.argv[1], sys.argv[3:])
    else:
        sys.exit(main())
