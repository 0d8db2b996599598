"""The report: one self-contained HTML file. Selects what to show; `charts` draws it, `report.html` styles it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, NamedTuple

from seglog.demo import charts
from seglog.demo.expected import LATE_MINUTES, AircraftState, DelayStatistics
from seglog.demo.flights import ZONE

if TYPE_CHECKING:
    from seglog.demo.compaction import Holdings
    from seglog.demo.stream import Streamed
    from seglog.log.info import SegmentInfo
    from seglog.table import TableReport

_LAST_SEEN = 10


class Run(NamedTuple):
    """The content of a report.

    places: tail number -> (partition, offset) of its latest record; before, after: what the topic held before and
    after its compaction; streamed: micro-batches before and after the restart; table: of the topic; engines: name ->
    seconds that it took to compute the delays from the table; seconds: step title -> seconds;
    ingest_seconds: of appending alone.
    """

    states: Mapping[str, AircraftState]
    places: Mapping[str, tuple[int, int]]
    delays: Mapping[tuple[str, int], DelayStatistics]
    streamed: Streamed
    table: TableReport
    engines: Mapping[str, float]
    carriers: Mapping[str, str]
    before: Holdings
    after: Holdings
    seconds: Mapping[str, float]
    ingest_seconds: float
    cores: int
    version: str


def render(run: Run) -> str:
    """Return the whole report as HTML."""
    template = Template(resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8"))
    seconds = sum(run.seconds.values())
    blocks = _blocks(run.before)
    return template.substitute(
        partitions=len(run.before.segments),
        first=run.streamed.first,
        second=run.streamed.second,
        verdict=f"All {len(run.states) + len(run.delays):,} result rows equal what the CSV alone gives",
        tiles=_tiles(run, seconds),
        heat=_heat(run),
        hot=charts.HOT_MINUTES,
        few=charts.FEW_DEPARTURES,
        late=LATE_MINUTES,
        delay_table=_delay_table(run),
        delay_bars=_by_hour(run.delays, "mean_delay", lambda mean: f"{mean:.1f} min"),
        late_bars=_by_hour(run.delays, "late_share", lambda share: f"{share:.0%}"),
        largest=size(max((block.size for lane in blocks for block in lane), default=0)),
        lanes=charts.lanes(blocks),
        smaller=f"{1 - run.after.bytes / run.before.bytes:.1%}",
        shares=_shares(run),
        engines=charts.durations(run.engines),
        engine_names=escape(_listed(list(run.engines))),
        table_size=size(run.table.bytes),
        table_files=run.table.files,
        groups=f"{len(run.delays):,}",
        survivors=f"{run.after.records:,}",
        keyless=f"{run.after.records - len(run.states):,}",
        flights=f"{run.before.records:,}",
        aircraft=f"{len(run.states):,}",
        aircraft_table=_aircraft_table(run),
        seconds=f"{seconds:.0f}",
        cores=run.cores,
        steps=charts.durations(run.seconds),
        version=escape(run.version),
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )


def _listed(names: list[str]) -> str:
    """Return names as a sentence lists them."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def size(count: float) -> str:
    """Return a number of bytes for people, in binary units."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def _tiles(run: Run, seconds: float) -> str:
    figures = {
        "records": f"{run.before.records:,}",
        "in the log": size(run.before.bytes),
        "after compaction": size(run.after.bytes),
        "segments": f"{sum(map(len, run.before.segments)):,}",
        "aircraft": f"{len(run.states):,}",
        "records/s appended and synced": f"{run.before.records / max(run.ingest_seconds, 1e-9):,.0f}",
        "seconds in all": f"{seconds:.0f}",
    }
    return "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in figures.items())


def _blocks(held: Holdings) -> list[list[charts.Block]]:
    return [[_block(number, info) for info in lane if info.records] for number, lane in enumerate(held.segments)]


def _shares(run: Run) -> str:
    """Return two bars: what the log took before, and what it takes now."""
    sizes = {"before": run.before.bytes, "after": run.after.bytes}
    return charts.shares({name: (bytes_ / run.before.bytes, size(bytes_)) for name, bytes_ in sizes.items()})


def _block(partition: int, info: SegmentInfo) -> charts.Block:
    low, high = info.min_timestamp or 0, info.max_timestamp or 0
    days = f"{datetime.fromtimestamp(low / 1e6, UTC):%d %b} to {datetime.fromtimestamp(high / 1e6, UTC):%d %b}"
    title = f"partition {partition}, {info.name}: {info.records:,} records, {size(info.bytes)}, {days}"
    return charts.Block(low, high, info.bytes, info.sealed_at is None, title)


def _carriers_by_size(run: Run) -> dict[str, str]:
    flights: dict[str, int] = {}
    for (carrier, _), statistics in run.delays.items():
        flights[carrier] = flights.get(carrier, 0) + statistics.flights
    return {code: run.carriers.get(code, code) for code in sorted(flights, key=lambda code: -flights[code])}


def _heat(run: Run) -> str:
    cells = {
        place: charts.Cell(statistics.mean_delay, statistics.departed)
        for place, statistics in run.delays.items()
        if statistics.mean_delay is not None
    }
    return charts.heat_map(_carriers_by_size(run), sorted({hour for _, hour in cells}), cells)


def _by_hour(delays: Mapping[tuple[str, int], DelayStatistics], field: str, text: Callable[[float], str]) -> str:
    """Return bars of one mean over all carriers, weighted by departures."""
    sums: dict[int, float] = {}
    departed: dict[int, int] = {}
    for (_, hour), statistics in sorted(delays.items(), key=lambda item: item[0][1]):
        if statistics.departed:
            sums[hour] = sums.get(hour, 0.0) + getattr(statistics, field) * statistics.departed
            departed[hour] = departed.get(hour, 0) + statistics.departed
    series = []
    for hour, total in sums.items():
        mean = total / departed[hour]
        title = f"{hour}:00 to {hour}:59: {text(mean)}, {departed[hour]:,} departures"
        series.append(charts.Bar(str(hour), mean, text(mean), title))
    return charts.bars(series, label=f"{field.replace('_', ' ')} by scheduled hour", every=3)


def _delay_table(run: Run) -> str:
    rows = [
        (run.carriers.get(carrier, carrier), hour, *statistics[:3], f"{statistics.late_share or 0:.1%}")
        for (carrier, hour), statistics in sorted(run.delays.items())
    ]
    return charts.table(
        ("airline", "hour", "flights", "departed", "mean delay, min", f"over {LATE_MINUTES} min late"), rows
    )


def _aircraft_table(run: Run) -> str:
    newest = sorted(run.states.items(), key=lambda item: item[1].event_time, reverse=True)[:_LAST_SEEN]
    rows = [
        (
            tail,
            f"{state.carrier} {state.flight}",
            f"{state.origin} → {state.dest}",
            f"{state.event_time.astimezone(ZONE):%d %b %H:%M}",
            "cancelled" if state.dep_delay is None else state.dep_delay,
            *run.places[tail],
        )
        for tail, state in newest
    ]
    return charts.table(("aircraft", "flight", "route", "New York time", "delay, min", "partition", "offset"), rows)
