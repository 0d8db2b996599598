"""The versions in constraints.txt, which every installation of this repository gets."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from packaging.specifiers import SpecifierSet

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"


def test_each_version_runs_on_the_lowest_python_that_seglog_supports() -> None:
    lowest = re.fullmatch(r">=(\d+\.\d+)", metadata("seglog")["Requires-Python"])
    assert lowest
    refused, seen = [], 0
    for line in CONSTRAINTS.read_text("utf-8").splitlines():
        name = line.partition("==")[0]
        try:
            wanted = metadata(name).get("Requires-Python")
        except PackageNotFoundError:  # of an extra that is not installed here
            continue
        seen += 1
        if wanted and f"{lowest[1]}.0" not in SpecifierSet(wanted):
            refused.append(f"{line} needs Python {wanted}")
    assert not refused
    assert seen > 100
