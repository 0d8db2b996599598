"""The demo's parts one by one: events, the independent computation, comparison, output directory, report."""

from __future__ import annotations

import json
import re
import zipfile
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

from seglog.demo import charts, expected, flights, output
from seglog.demo.compaction import Holdings
from seglog.demo.compare import compare
from seglog.demo.expected import AircraftState, DelayStatistics
from seglog.demo.report import Run, render, size
from seglog.demo.stream import Streamed
from seglog.errors import InvalidArgument
from seglog.log.info import SegmentInfo
from seglog.table import TableReport

if TYPE_CHECKING:
    from pathlib import Path

HEAD = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,"
    "origin,dest,air_time,distance,hour,minute,time_hour"
)


def archive(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as files:
        files.writestr("flights.csv", "\n".join([HEAD, *rows]) + "\n")
    return path


def row(
    *, hour: int, minute: int, delay: str = "0", tail: str = "N1", month: int = 1, day: int = 2, utc: int = 0
) -> str:
    time_hour = f"2013-{month:02}-{day:02}T{utc or hour + 5:02}:00:00Z"
    return f"2013,{month},{day},1,1,{delay},1,1,{delay},UA,7,{tail},JFK,IAH,9,99,{hour},{minute},{time_hour}"


# --- events


def test_events_stand_in_the_order_of_actual_departure(tmp_path: Path) -> None:
    rows = [row(hour=6, minute=0, delay="90", tail="LATE"), row(hour=7, minute=0, delay="-5", tail="EARLY")]
    events = flights.to_events(flights.read_rows(archive(tmp_path, *rows)))
    assert events["key"].to_pylist() == ["EARLY", "LATE"]
    assert events["timestamp"].to_pylist() == [
        datetime(2013, 1, 2, 11, 55, tzinfo=UTC),
        datetime(2013, 1, 2, 12, 30, tzinfo=UTC),
    ]


def test_a_cancelled_flight_stands_at_its_schedule_and_ties_keep_the_files_order(tmp_path: Path) -> None:
    rows = [row(hour=6, minute=30, delay="0", tail="A"), row(hour=6, minute=30, delay="NA", tail="NA")]
    events = flights.to_events(flights.read_rows(archive(tmp_path, *rows)))
    assert events["key"].to_pylist() == ["A", None]
    cancelled = json.loads(events["value"][1].as_py())
    assert (cancelled["tailnum"], cancelled["dep_delay"], cancelled["scheduled"]) == (
        None,
        None,
        "2013-01-02T11:30:00Z",
    )


@pytest.mark.parametrize(
    ("month", "day", "hour", "expected_utc"),
    [
        (3, 10, 1, "2013-03-10T06:15"),
        (3, 10, 2, "2013-03-10T07:15"),  # skipped that night: read as if the clocks had not changed yet
        (3, 10, 3, "2013-03-10T07:15"),
        (7, 1, 12, "2013-07-01T16:15"),
        (11, 3, 1, "2013-11-03T05:15"),  # happens twice that night: the first
        (11, 3, 2, "2013-11-03T07:15"),
    ],
)
def test_new_yorks_clock_becomes_utc(tmp_path: Path, month: int, day: int, hour: int, expected_utc: str) -> None:
    rows = flights.read_rows(archive(tmp_path, row(hour=hour, minute=15, month=month, day=day)))
    moment = datetime.fromtimestamp(flights.scheduled_utc(rows)[0] / 1e6, UTC)
    assert moment.isoformat(timespec="minutes").removesuffix("+00:00") == expected_utc


def test_every_converted_time_agrees_with_the_datas_own_utc_hour() -> None:
    path = flights.data_directory() / "flights.csv.zip"
    ours = pa.array(flights.scheduled_utc(flights.read_rows(path))).cast(pa.timestamp("us"))
    with zipfile.ZipFile(path) as files, files.open("flights.csv") as file:
        hours = pa.csv.read_csv(
            pa.py_buffer(file.read()), convert_options=pa.csv.ConvertOptions(include_columns=["time_hour"])
        )["time_hour"]
    floor = pc.floor_temporal(ours, unit="hour").cast(pa.int64())
    assert pc.all(pc.equal(floor, hours.cast(pa.timestamp("us", "UTC")).cast(pa.int64()))).as_py()


def test_a_value_is_json_whatever_the_text(tmp_path: Path) -> None:
    rows = flights.read_rows(archive(tmp_path, row(hour=6, minute=0, tail='"N""\\é"')))
    events = flights.to_events(rows)
    assert json.loads(events["value"][0].as_py())["tailnum"] == events["key"][0].as_py() == 'N"\\é'


# --- the independent computation


def test_the_last_event_of_an_aircraft_wins_and_of_equal_times_the_later_row(tmp_path: Path) -> None:
    rows = [
        row(hour=6, minute=0, delay="90", tail="A"),
        row(hour=7, minute=0, delay="0", tail="A"),
        row(hour=8, minute=0, delay="20", tail="B"),
        row(hour=8, minute=20, delay="0", tail="B"),
        row(hour=9, minute=0, delay="NA", tail="NA"),
    ]
    result = expected.compute(archive(tmp_path, *rows))
    assert {tail: state.dep_delay for tail, state in result.aircraft.items()} == {"A": 90, "B": 0}
    assert result.rows == 5


def test_delays_count_what_departed(tmp_path: Path) -> None:
    rows = [row(hour=6, minute=0, delay=delay) for delay in ("15", "16", "-1", "NA")] + [
        row(hour=7, minute=0, delay="NA")
    ]
    delays = expected.compute(archive(tmp_path, *rows)).delays
    assert delays == {("UA", 6): (4, 3, 10.0, 1 / 3), ("UA", 7): (1, 0, None, None)}


# --- comparison


def test_equal_results_have_no_difference() -> None:
    assert compare("r", {"a": (1, 0.5)}, {"a": (1, 0.5)}) == (1, 0, ())


def test_what_is_missing_extra_or_different_is_told() -> None:
    result = compare("r", {"a": (1,), "b": (2,)}, {"b": (3,), "c": (4,)})
    assert result.differing == 3
    assert result.lines == (
        "r: a is missing; expected (1,)",
        "r: b is (3,); expected (2,)",
        "r: c should not be there; it is (4,)",
    )


def test_a_float_that_is_off_by_one_bit_differs() -> None:
    assert compare("r", {"a": (0.3,)}, {"a": (0.1 + 0.2,)}).differing == 1


def test_many_differences_are_cut_short_but_counted() -> None:
    result = compare("r", dict.fromkeys(range(50), (1,)), {})
    assert (result.differing, len(result.lines), result.lines[-1]) == (50, 11, "r: and 40 more rows")


# --- the output directory


def test_a_second_run_replaces_its_own_files_and_no_others(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "out"
    output.prepare(directory)
    (directory / output.TOPIC / "0").mkdir(parents=True)
    (directory / output.REPORT).write_text("old")
    (directory / "mine.txt").write_text("kept")
    output.prepare(directory)
    assert sorted(entry.name for entry in directory.iterdir()) == [output.MARKER, "mine.txt"]


def test_somebody_elses_directory_or_file_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / output.REPORT).write_text("mine")
    with pytest.raises(InvalidArgument, match="not created by the demo"):
        output.prepare(tmp_path)
    with pytest.raises(InvalidArgument, match="is a file"):
        output.prepare(tmp_path / output.REPORT)
    assert (tmp_path / output.REPORT).read_text() == "mine"


def test_a_link_in_place_of_a_result_is_removed_and_not_followed(tmp_path: Path) -> None:
    directory, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    output.prepare(directory)
    (directory / output.TOPIC).symlink_to(elsewhere)
    output.prepare(directory)
    assert elsewhere.is_dir()
    assert not (directory / output.TOPIC).exists()


# --- the report


def segment(number: int, *, sealed: bool = True) -> SegmentInfo:
    day = 86_400_000_000
    start = 1_357_016_400_000_000 + number * 100 * day
    return SegmentInfo(
        base_offset=number * 10,
        next_offset=number * 10 + 10,
        bytes=1000,
        records=10,
        tombstones=0,
        min_timestamp=start,
        max_timestamp=start + 99 * day,
        created=start,
        sealed_at=start if sealed else None,
        dense=True,
        name=f"{number}.store",
    )


def run(**changes: object) -> Run:
    moment = datetime(2013, 5, 6, 7, 8, tzinfo=UTC)
    whole = Run(
        states={"N1": AircraftState(moment, "UA", 7, "JFK", "IAH", moment, None, None)},
        places={"N1": (3, 41)},
        delays={
            ("UA", 6): DelayStatistics(100, 99, 12.34, 0.25),
            ("UA", 7): DelayStatistics(2, 0, None, None),
            ("<X>", 7): DelayStatistics(5, 5, -0.4, 0.0),
        },
        streamed=Streamed(3, 9),
        table=TableReport("flights", 107, 0, 4, 5000, {0: 107}),
        engines={"Spark": 0.5, "DuckDB": 0.02, "Polars": 0.01},
        carriers={"UA": "United & Sons"},
        before=Holdings([[segment(0), segment(1, sealed=False)], [segment(0)]], 3192),
        after=Holdings([[segment(1, sealed=False)], []], 798),
        seconds={"One step": 1.5},
        ingest_seconds=0.5,
        cores=2,
        version="0.1.0",
    )
    return whole._replace(**changes)  # type: ignore[arg-type] # the names are Run's


def test_the_report_needs_nothing_from_outside() -> None:
    page = render(run())
    assert not re.search(r"""(src|href)\s*=|url\(|@import|<script|https?://""", page)


def test_the_report_is_well_formed_and_escapes_what_it_shows() -> None:
    page = render(run())
    body = page[page.index("<body>") : page.index("</body>") + len("</body>")]
    ElementTree.fromstring(body.replace("&nbsp;", " "))  # noqa: S314 - our own page
    assert "United &amp; Sons" in page
    assert "<X>" not in page


def test_the_report_tells_the_figures_of_the_run() -> None:
    page = render(run())
    for figure in (
        "United &amp; Sons, 6:00 to 6:59: 12.3 min",
        "3.1 KiB",
        "75.0% smaller",
        "<b>798 B</b>",
        "30 records became 10",
        "9 cancelled flights",
        "cancelled",
        "partition 1",
        "1.5 s",
    ):
        assert figure in page


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB")])
def test_sizes_read_well(count: int, text: str) -> None:
    assert size(count) == text


def test_blocks_are_drawn_to_scale() -> None:
    drawn = charts.lanes(
        [[charts.Block(0, 60, 100, active=False, title=""), charts.Block(60, 80, 50, active=True, title="")]]
    )
    boxes = re.findall(r'class="(segment|active)" x="([\d.]+)%" y="[\d.]+" width="([\d.]+)%" height="([\d.]+)"', drawn)
    assert boxes == [("segment", "0.000", "75.000", "44.0"), ("active", "75.000", "25.000", "22.0")]
