"""The demo's output while it runs: a numbered line per step, its seconds, and a bar for long steps."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tqdm import tqdm


@dataclass
class Steps:
    """Counts `total` steps. seconds: step title -> how long it took, in order."""

    total: int
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Announce a step, then print its seconds; the line stays open while it runs."""
        sys.stdout.write(f"[{len(self.seconds) + 1}/{self.total}] {title} ...\n")
        sys.stdout.flush()
        started = time.perf_counter()
        yield
        self.seconds[title] = time.perf_counter() - started
        sys.stdout.write(f"      {self.seconds[title]:.1f} s\n")
        sys.stdout.flush()

    @staticmethod
    def say(text: str) -> None:
        """Print one line under the running step."""
        sys.stdout.write(f"      {text}\n")
        sys.stdout.flush()

    @staticmethod
    def bar(total: int, unit: str) -> tqdm[None]:
        """Return a progress bar on stderr; none if stderr is not a terminal."""
        return tqdm(total=total, unit=f" {unit}", unit_scale=True, disable=None, leave=False)
