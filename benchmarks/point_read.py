"""read(offset), read_many and read_keys at random against sqlite3 by rowid and lmdb's get.

All files are in the page cache.

Mode "r" is also compared with the writer's own reads. A read returns a verified Record. sqlite3 returns a row of the
same columns, with its defaults, and once more in WAL mode with all reads in one transaction; lmdb returns the bytes of
timestamp, key and value, all in one transaction. `Log.read_keys` scans the log; a KeyIndex has its keys in memory.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, Literal

import seglog
from benchmarks.data import SEED, keyed_table, record_bytes
from benchmarks.peers.libraries import Lmdb, Row, Sqlite, tabled
from benchmarks.scale import Scale
from benchmarks.timing import Figure, Side, in_rounds, stopwatch

VALUE_BYTES = 100
MODES: tuple[tuple[str, Literal["a", "r"]], ...] = (("point read, 100 B", "a"), ("point read, mode r, 100 B", "r"))
AIMS = {"sqlite3 by rowid": 3.0, "sqlite3, WAL, one transaction": None, "lmdb get": 0.5}
MANY, MANY_AIM, READER_AIM = 300, 1.0, 0.8
KEY_CALLS = 5  # of read_keys in one repeat: each takes as long as thousands of reads
KEYS_NAME, INDEX_NAME = f"read_keys of {MANY}, 100 B", f"KeyIndex.read_keys of {MANY}, 100 B"
MANY_NAMES = {mode: f"read_many of {MANY}{', mode r' if mode == 'r' else ''}, 100 B" for _, mode in MODES}


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure records of 100 B with keys of 16 B, read by the writer itself and by a reader in mode "r"."""
    place = directory / "points"
    table = keyed_table(VALUE_BYTES, scale.records * record_bytes(VALUE_BYTES))
    with seglog.open(place) as log:
        log.append_batch(table)
        rows: list[Row] = [(one.offset, one.timestamp, one.key or b"", one.value or b"") for one in log.scan()]
    offsets = random.Random(SEED).choices(range(len(rows)), k=scale.calls)
    sides: dict[str, Side] = {name: _reads(place, offsets, mode) for name, mode in MODES}
    sides |= {MANY_NAMES[mode]: _reads_many(place, offsets, mode) for _, mode in MODES}
    keys = [rows[offset][2] for offset in offsets]
    sides |= {KEYS_NAME: _scans_keys(place, keys), INDEX_NAME: _finds_keys(place, keys)}
    with ExitStack() as opened:
        for name, kind, making, reading in _kinds():
            store = opened.enter_context(closing(kind(directory / f"peer-{len(sides)}", **making)))
            store.put_all(rows)
            sides[name] = partial(store.get_each, offsets, **reading)
        taken = dict(zip(sides, in_rounds(list(sides.values()), repeats=scale.repeats), strict=True))
    for name, _ in MODES:
        for peer in [one for one in AIMS if one in taken]:
            yield Figure(
                name=name,
                against=peer,
                ours=taken[name],
                other=taken[peer],
                work=scale.calls,
                unit="call",
                aim=AIMS[peer],
            )
    (writer, _), (reader, _) = MODES
    pairs = [(reader, "the writer's reads", writer, READER_AIM)]
    many = (*MANY_NAMES.values(), KEYS_NAME, INDEX_NAME)
    pairs += [(name, peer, peer, MANY_AIM) for name in many for peer in taken if peer == "lmdb get"]
    for name, against, other, aim in pairs:
        times = {"ours": taken[name], "other": taken[other]}
        yield Figure(name=name, against=against, work=scale.calls, unit="call", aim=aim, **times)


def _kinds() -> Iterator[tuple[str, Any, dict[str, bool], dict[str, bool]]]:
    """Yield the peers: name, class, options for creating and for reading."""
    by_rowid, at_once, get = AIMS
    yield by_rowid, Sqlite, {"defaults": True}, {}
    yield at_once, Sqlite, {}, {"at_once": True}
    if Lmdb in tabled():
        yield get, Lmdb, {}, {}


def _reads(place: Path, offsets: Sequence[int], mode: Literal["a", "r"]) -> Side:
    return _called(place, mode, "read", offsets)


def _reads_many(place: Path, offsets: Sequence[int], mode: Literal["a", "r"]) -> Side:
    return _called(place, mode, "read_many", [offsets[start : start + MANY] for start in range(0, len(offsets), MANY)])


def _scans_keys(place: Path, keys: Sequence[bytes]) -> Side:
    """Return a side that looks up the first keys, and returns what all of them would take."""
    calls = [keys[start : start + MANY] for start in range(0, min(KEY_CALLS * MANY, len(keys)), MANY)]
    side = _called(place, "r", "read_keys", calls)
    return lambda: side() * len(keys) / sum(map(len, calls))


def _finds_keys(place: Path, keys: Sequence[bytes]) -> Side:
    """Return a side that looks up all keys; making the index is not timed."""

    def run() -> float:
        with seglog.open(place) as log:
            index = seglog.KeyIndex(log)
            with stopwatch() as watch:
                for start in range(0, len(keys), MANY):
                    index.read_keys(keys[start : start + MANY])
        return watch.seconds

    return run


def _called(place: Path, mode: Literal["a", "r"], method: str, arguments: Sequence[Any]) -> Side:
    """Call a method of a log with each argument."""

    def run() -> float:
        with seglog.open(place, mode=mode) as log:
            call = getattr(log, method)
            with stopwatch() as watch:
                for argument in arguments:
                    call(argument)
        return watch.seconds

    return run
