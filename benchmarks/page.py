"""docs/benchmarks.md and its diagrams, derived from the history alone: the same history gives the same page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import wrap

from benchmarks.history import HISTORY, Kept, Run, alike, course, latest, regressions
from benchmarks.table import FOOTNOTE, speed

DOCS = HISTORY.parent.parent
PAGE = DOCS / "benchmarks.md"
PICTURES = HISTORY.parent

TITLES = {
    "batch-append": "Batch append",
    "append": "Single append",
    "group-commit": "Group commit: durable appends of many at a time",
    "scan": "Verified scan to Arrow",
    "point-read": "Point read",
    "recovery": "Recovery of an unsealed segment of 1 GiB",
    "archive": "Archive of 1 GiB in a directory of the same disk",
    "archive-spark": "Spark reading an archive on an S3 server",
    "replication": "Copies that follow a leader",
    "replay": "State machines",
    "table": "Tables",
    "table-choices": "The choices of tables: compression, copy on write",
    "block-compression": "Compression of stored records by blocks (ADR 0056)",
    "compaction": "Compaction",
    "libraries": "Compared with libraries",
    "logs": "Compared with logs of other languages",
    "startup": "Start and opening",
    "many-segments": "A log of many segments",
    "log-size": "Logs of a thousand to a billion bytes",
    "growth": "Logs of ten to a hundred thousand segments",
    "http": "HTTP",
    "http-paths": "One append over HTTP, and by paths that do less",
    "kafka": "Compared with Kafka",
    "kafka-clients": "Kafka's own programs, against Kafka and against `seglog serve --kafka`",
    "kafka-requests": "One Produce of a client of Kafka, against paths that do less of the same",
    "laminarmq": "Compared with laminarmq",
    "spark": "Spark",
    "spark-kafka": "Spark, compared with its Kafka source",
}
GROWTH = ("log-size", "growth")  # whose figures one picture shows as lines
LINES = "growth-lines.svg"
COLUMNS = ("work", "against", "ours", "theirs", "ratio", "spread", "aim", "met")
COLUMNS_OF_TEXT = 100
INTRODUCTION = """
`make bench` measures and writes this page. A ratio is our speed divided by the other side's speed,
both measured in one run: higher is better.
""".strip()
MET = {None: "", True: "yes", False: "**no**"}


def write(history: Sequence[Run], page: Path = PAGE) -> Path:
    """Write the page and its pictures beside it; return its path. history: at least one run."""
    from benchmarks.pictures import draw_aims, draw_benchmark, draw_growth  # noqa: PLC0415 - they need matplotlib

    if not history:
        raise SystemExit("there is no history for the page: run the benchmarks first")
    pictures = page.parent / PICTURES.name
    pictures.mkdir(parents=True, exist_ok=True)
    runs, figures = alike(history), _figures(history)
    draw_aims([figure for figure in figures if figure.aim is not None], pictures / "aims.svg")
    for benchmark in _benchmarks(figures):
        of_it = [figure for figure in figures if figure.benchmark == benchmark]
        courses = [[(run.is_disturbed, one) for run in runs for one in course([run], it.known_by)] for it in of_it]
        draw_benchmark(of_it, courses, pictures / f"{benchmark}.svg")
    draw_growth([figure for figure in figures if figure.benchmark in GROWTH], pictures / LINES)
    page.write_text("\n".join(_lines(history, figures)) + "\n")
    return page


def _figures(history: Sequence[Run]) -> list[Kept]:
    """Return the newest result of each figure, by benchmark in the page's order."""
    order = list(TITLES)
    newest = [figure for _, figure in latest(history).values()]
    return sorted(newest, key=lambda one: order.index(one.benchmark) if one.benchmark in order else len(order))


def _benchmarks(figures: Iterable[Kept]) -> list[str]:
    return list(dict.fromkeys(figure.benchmark for figure in figures))


# --- text -----------------------------------------------------------------------------------------------------------


def _lines(history: Sequence[Run], figures: Sequence[Kept]) -> Iterator[str]:
    run, aimed = history[-1], [figure for figure in figures if figure.aim is not None]
    calm = [figure for figure in aimed if not latest(history)[figure.known_by][0].is_disturbed]
    missed = [figure for figure in calm if not figure.met]
    opened = f" and {len(aimed) - len(calm)} open" if len(calm) < len(aimed) else ""
    yield "# Benchmarks"
    yield ""
    yield INTRODUCTION
    yield ""
    yield f"Of {len(aimed)} aims {len(calm) - len(missed)} are met, {len(missed)} are not met{opened}."
    yield ""
    if missed:
        yield from _missed(missed)
        yield ""
    yield from _disturbed(history, figures)
    yield f"![ratios relative to their aims]({PICTURES.name}/aims.svg)"
    yield ""
    yield from _fell(history)
    for benchmark in _benchmarks(figures):
        yield from _section(benchmark, [figure for figure in figures if figure.benchmark == benchmark])
    yield from _machine(run, dict(pair for one, _ in _shown(history, figures) for pair in one.peers.items()))
    yield from _taken(history, figures)
    yield "## Method"
    yield FOOTNOTE.rstrip()


def _missed(figures: Iterable[Kept]) -> Iterator[str]:
    yield "Not met:"
    yield ""
    yield "| work | against | ratio | aim |"
    yield "|---|---|---|---|"
    for figure in figures:
        yield f"| {figure.name} | {figure.against} | {figure.ratio:.2f} | {figure.aim:g} |"


def _disturbed(history: Sequence[Run], figures: Sequence[Kept]) -> Iterator[str]:
    """Report which of the shown benchmarks ran on a busy machine."""
    loads = {benchmark: run.load for run, benchmark in _shown(history, figures) if run.is_disturbed}
    if loads:
        yield from wrap(
            f"The machine was busy when these began (up to {max(loads.values()):.1f} processes wanted to run on "
            f"{history[-1].machine['cores']} cores), so whether they meet their aims is open, "
            f"whatever the tables show: {', '.join(loads)}.",
            COLUMNS_OF_TEXT,
            break_on_hyphens=False,
        )
        yield ""


def _shown(history: Sequence[Run], figures: Sequence[Kept]) -> Iterator[tuple[Run, str]]:
    """Yield the runs whose figures are shown, with the benchmarks of each."""
    shown, of_run = {figure.known_by for figure in figures}, latest(history)
    for run in alike(history):
        own = [one for one in run.figures if one.known_by in shown and of_run[one.known_by][0] is run]
        for benchmark in _benchmarks(own):
            yield run, benchmark


def _fell(history: Sequence[Run]) -> Iterator[str]:
    fell = list(regressions(history))
    if not fell:
        return
    yield "Lower than expected from earlier runs on the same kind of machine:"
    yield ""
    for figure, least in fell:
        text = f"- {figure.name} against {figure.against}: {figure.ratio:.2f}, expected at least {least:.2f}"
        yield from wrap(text, COLUMNS_OF_TEXT, subsequent_indent="  ", break_on_hyphens=False)
    yield ""


def _section(benchmark: str, figures: Sequence[Kept]) -> Iterator[str]:
    yield f"## {TITLES.get(benchmark, benchmark)}"
    yield ""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|" + "---|" * len(COLUMNS)
    for figure in figures:
        yield f"| {' | '.join(_cells(figure))} |"
    yield ""
    if benchmark in GROWTH:
        yield f"![calls per second by the size of a log, and by its segments]({PICTURES.name}/{LINES})"
        yield ""
    yield f"![ratios over time]({PICTURES.name}/{benchmark}.svg)"
    yield ""


def _cells(figure: Kept) -> tuple[str, ...]:
    ours, other = (speed(seconds, figure.work, figure.unit) for seconds in (figure.ours, figure.other))
    aim = "" if figure.aim is None else f"{figure.aim:g}"
    spread = f"{figure.low:.2f} - {figure.high:.2f}"
    return figure.name, figure.against, ours, other, f"{figure.ratio:.2f}", spread, aim, MET[figure.met]


def _machine(run: Run, peers: Mapping[str, str]) -> Iterator[str]:
    """Describe the machine of a run. peers: names and versions, those of all runs that are shown."""
    yield "## The machine and its limits"
    yield ""
    machine = ", ".join(f"{name.replace('_gib', ' (GiB)')} {value}" for name, value in run.machine.items())
    named = ", ".join(f"{name} {version}" for name, version in sorted(peers.items()))
    for text in (f"{machine}.", f"Peers: {named}."):
        yield from wrap(text, COLUMNS_OF_TEXT, break_on_hyphens=False)
    yield ""
    yield "| limit | median | least - greatest |"
    yield "|---|---|---|"
    for limit in run.limits:
        yield f"| {limit.name} | {limit.value:g} {limit.unit} | {limit.low:g} - {limit.high:g} |"
    yield ""


def _taken(history: Sequence[Run], figures: Sequence[Kept]) -> Iterator[str]:
    """List the runs that the figures come from; a run of some benchmarks keeps the figures of the others."""
    yield "| taken (UTC) | commit | load before | benchmarks |"
    yield "|---|---|---|---|"
    for run, pairs in groupby(_shown(history, figures), key=lambda pair: pair[0]):
        names = ", ".join(benchmark for _, benchmark in pairs)
        yield f"| {run.taken.replace('T', ' ').rstrip('Z')} | {run.commit} | {run.load:.1f} | {names} |"
    yield ""
    yield f"{len(history)} runs are stored in [history.jsonl]({PICTURES.name}/{HISTORY.name}), one per line."
    yield ""
