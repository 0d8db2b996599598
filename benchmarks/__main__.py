"""`python -m benchmarks`: measure, print the table as it grows, store every repeat as JSON and the medians as history.

`make bench` runs all of it. The results are appended to docs/benchmarks/history.jsonl, from which docs/benchmarks.md
and its pictures are generated; figures that fell are printed at the end. `python -m benchmarks page` only generates the
page again. `python -m benchmarks coldstart` measures a fresh installation of the wheel.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks import (
    against_laminarmq,
    archive,
    archive_spark,
    batch_append,
    beside_kafka,
    block_compression,
    coldstart,
    compaction,
    group_commit,
    growth,
    history,
    http_paths,
    kafka_clients,
    kafka_requests,
    libraries,
    limits,
    log_size,
    logs,
    many_segments,
    over_http,
    page,
    point_read,
    recovery,
    replay,
    replication,
    scan,
    single_append,
    spark_io,
    startup,
    table_choices,
    table_io,
)
from benchmarks.peers import peer_versions
from benchmarks.scale import FULL, QUICK, Scale
from benchmarks.table import COLUMNS, FOOTNOTE, line, row, write_json
from benchmarks.timing import Figure

BENCHMARKS: dict[str, Callable[[Path, Scale], Iterator[Figure]]] = {
    "batch-append": batch_append.figures,
    "append": single_append.figures,
    "group-commit": group_commit.figures,
    "scan": scan.figures,
    "point-read": point_read.figures,
    "startup": startup.figures,
    "many-segments": many_segments.figures,
    "log-size": log_size.figures,
    "growth": growth.figures,
    "recovery": recovery.figures,
    "compaction": compaction.figures,
    "archive": archive.figures,
    "archive-spark": archive_spark.figures,
    "replication": replication.figures,
    "replay": replay.figures,
    "libraries": libraries.figures,
    "logs": logs.figures,
    "http": over_http.figures,
    "http-paths": http_paths.figures,
    "kafka": beside_kafka.figures,
    "kafka-clients": kafka_clients.figures,
    "kafka-requests": kafka_requests.figures,
    "spark": spark_io.figures,
    "table": table_io.figures,
    "table-choices": table_choices.figures,
    "block-compression": block_compression.figures,
    "laminarmq": against_laminarmq.figures,
    "spark-kafka": beside_kafka.spark_figures,
}
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Run the benchmarks named on the command line, by default all; return the exit status."""
    if sys.argv[1:2] == ["coldstart"]:
        return coldstart.main(sys.argv[2:])
    options = _options()
    if options.names == ["page"]:
        print(f"written: {page.write(history.read_history(options.history), options.page)}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that servers end and directories are removed
    begun = {"taken": time.time(), "load": os.getloadavg()[0]}
    if begun["load"] > history.DISTURBED * (os.cpu_count() or 1):
        print(f"(the machine is busy: load {begun['load']:.1f}; the figures are not reliable)")
    scale = QUICK if options.quick else FULL
    print(line(COLUMNS))
    figures = list(_measure(options.names or list(BENCHMARKS), scale, options.directory))
    print(FOOTNOTE)
    with _scratch(options.directory) as directory:
        found = list(limits.limits(directory, scale))
    run = history.run_of(figures, found, peer_versions(), **begun)
    target = options.json or RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
    write_json(target, run, [figure for _, figure in figures])
    print(f"every repeat: {target}")
    if options.quick or options.trial:
        return 0
    history.keep(run, options.history)
    runs = history.read_history(options.history)
    print(f"written: {options.history}, {page.write(runs, options.page)}")
    return tell(runs, strict=options.strict)


def _options() -> argparse.Namespace:
    names = [*BENCHMARKS, "page"]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(BENCHMARKS)}; default: all; or: page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="default: a new file in benchmarks/results")
    parser.add_argument("--quick", action="store_true", help="small and few: shows that it runs, not how fast")
    parser.add_argument("--trial", action="store_true", help="do not change history and page (--quick implies this)")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a figure fell")
    parser.add_argument("--history", type=Path, metavar="FILE", default=history.HISTORY, help="default: %(default)s")
    parser.add_argument("--page", type=Path, metavar="FILE", default=page.PAGE, help="default: %(default)s")
    parser.add_argument("--directory", type=Path, help="where both sides write; default: the temporary directory")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in names]
    if unknown or ("page" in options.names and len(options.names) > 1):
        parser.error(f"{' '.join(unknown or options.names)!r}: name some of {', '.join(BENCHMARKS)}, or page alone")
    return options


def _measure(names: Sequence[str], scale: Scale, parent: Path | None) -> Iterator[tuple[str, Figure]]:
    for name in names:
        with _scratch(parent) as directory:
            for figure in BENCHMARKS[name](directory, scale):
                print(row(figure), flush=True)
                yield name, figure


def _scratch(parent: Path | None) -> _Scratch:
    return _Scratch(prefix="seglog-bench-", dir=parent)


class _Scratch(tempfile.TemporaryDirectory[str]):
    """A directory for measurements, as a Path."""

    def __enter__(self) -> Path:  # type: ignore[override]
        return Path(super().__enter__())


def tell(runs: Sequence[history.Run], *, strict: bool) -> int:
    """Print the figures that fell; return the exit status."""
    if runs[-1].is_disturbed:
        print(f"not compared with earlier runs: the machine was busy (load {runs[-1].load:.1f})")
    fell = list(history.regressions(runs))
    for figure, least in fell:
        print(f"FELL: {figure.name} against {figure.against}: {figure.ratio:.2f}, expected at least {least:.2f}")
    return 1 if fell and strict else 0


if __name__ == "__main__":
    sys.exit(main())
