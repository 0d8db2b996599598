"""`python -m benchmarks`: measure, print the table as it grows, keep every repeat as JSON."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import (
    against_laminarmq,
    batch_append,
    compaction,
    many_segments,
    over_http,
    point_read,
    scan,
    single_append,
    spark_io,
    startup,
)
from benchmarks.scale import FULL, QUICK, Scale
from benchmarks.table import COLUMNS, FOOTNOTE, line, row, write_json
from benchmarks.timing import Figure

BENCHMARKS: dict[str, Callable[[Path, Scale], Iterator[Figure]]] = {
    "batch-append": batch_append.figures,
    "scan": scan.figures,
    "append": single_append.figures,
    "point-read": point_read.figures,
    "startup": startup.figures,
    "many-segments": many_segments.figures,
    "compaction": compaction.figures,
    "http": over_http.figures,
    "spark": spark_io.figures,
    "laminarmq": against_laminarmq.figures,
}
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Run the benchmarks named on the command line, all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="default: a new file in benchmarks/results")
    parser.add_argument("--quick", action="store_true", help="small and few: shows that it runs, not how fast")
    parser.add_argument("--directory", type=Path, help="where both sides write; default: the temporary directory")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    print(line(COLUMNS))
    figures = list(_measure(options.names or list(BENCHMARKS), QUICK if options.quick else FULL, options.directory))
    print(FOOTNOTE)
    target = options.json or RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
    write_json(target, figures)
    print(f"every repeat: {target}")


def _measure(names: list[str], scale: Scale, parent: Path | None) -> Iterator[Figure]:
    for name in names:
        with tempfile.TemporaryDirectory(prefix="seglog-bench-", dir=parent) as directory:
            for figure in BENCHMARKS[name](Path(directory), scale):
                print(row(figure), flush=True)
                yield figure


if __name__ == "__main__":
    main()
