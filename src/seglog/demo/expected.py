"""The demo's expected results, computed from the CSV alone: standard library only, no seglog, no Arrow, no Spark.

Deliberately independent, down to the clock: UTC comes from the data's own `time_hour` column, while the events in the
log were converted from New York's local time.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import NamedTuple

LATE_MINUTES = 15
_MISSING = ("NA", "")


class AircraftState(NamedTuple):
    """The last event of one aircraft. event_time, scheduled: UTC; delays in minutes, None for a cancelled
    flight.
    """

    event_time: datetime
    carrier: str
    flight: int
    origin: str
    dest: str
    scheduled: datetime
    dep_delay: int | None
    arr_delay: int | None


class DelayStatistics(NamedTuple):
    """Departures of one carrier in one scheduled hour of the day (New York time).

    flights: scheduled; departed: of these not cancelled; mean_delay: minutes, None if none departed;
    late_share: part of the departed that left more than LATE_MINUTES late, None if none departed.
    """

    flights: int
    departed: int
    mean_delay: float | None
    late_share: float | None


class Expected(NamedTuple):
    """aircraft: tail number -> state; delays: (carrier, hour) -> statistics; rows: of the CSV."""

    aircraft: dict[str, AircraftState]
    delays: dict[tuple[str, int], DelayStatistics]
    rows: int


def compute(archive: Path, *, limit: int | None = None) -> Expected:
    """Return both results from the first `limit` rows (default: all) of flights.csv inside `archive`."""
    aircraft: dict[str, AircraftState] = {}
    minutes: dict[tuple[str, int], list[int | None]] = defaultdict(list)
    rows = 0
    for row in islice(_rows(archive), limit):
        rows += 1
        state = _state(row)
        minutes[row["carrier"], int(row["hour"])].append(state.dep_delay)
        tail = row["tailnum"]
        # Of two events at the same time the later row wins, as it does in the log.
        if tail not in _MISSING and (tail not in aircraft or aircraft[tail].event_time <= state.event_time):
            aircraft[tail] = state
    return Expected(aircraft, {place: _statistics(delays) for place, delays in minutes.items()}, rows)


def _rows(archive: Path) -> Iterator[dict[str, str]]:
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as file:
        yield from csv.DictReader(io.TextIOWrapper(file, "utf-8", newline=""))


def _state(row: dict[str, str]) -> AircraftState:
    hour = datetime.fromisoformat(row["time_hour"])
    scheduled = hour + timedelta(minutes=int(row["minute"]))
    delay, arrival = _whole(row["dep_delay"]), _whole(row["arr_delay"])
    return AircraftState(
        event_time=scheduled + timedelta(minutes=delay or 0),
        carrier=row["carrier"],
        flight=int(row["flight"]),
        origin=row["origin"],
        dest=row["dest"],
        scheduled=scheduled,
        dep_delay=delay,
        arr_delay=arrival,
    )


def _whole(text: str) -> int | None:
    return None if text in _MISSING else int(text)


def _statistics(delays: list[int | None]) -> DelayStatistics:
    departed = [delay for delay in delays if delay is not None]
    if not departed:
        return DelayStatistics(len(delays), 0, None, None)
    late = sum(delay > LATE_MINUTES for delay in departed)
    return DelayStatistics(len(delays), len(departed), sum(departed) / len(departed), late / len(departed))
