"""read(offset), read_many and read_keys at random against sqlite3 by rowid and lmdb's get.

All files are in the page cache.

Mode "r" is also compared with the writer's own reads. A read returns a verified Record. sqlite3 returns a row of the
same columns, with its defaults, and once more in WAL mode with all reads in one transaction; lmdb returns the bytes of
timestamp, key and value, all in one transaction. `Log.read_keys` scans the log; a KeyIndex has its keys in memory.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from operator import attrgetter
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
    sides: dict[str, Side] = {name: _called(place, mode, attrgetter("read"), offsets) for name, mode in MODES}
    many = [offsets[start : start + MANY] for start in range(0, len(offsets), MANY)]
    sides |= {MANY_NAMES[mode]: _called(place, mode, attrgetter("read_many"), many) for _, mode in MODES}
    keys = [[rows[offset][2] for offset in some] for some in many]
    sides |= {KEYS_NAME: _scans_keys(place, keys), INDEX_NAME: _called(place, "a", _finds_keys, keys)}
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
    of_many = (*MANY_NAMES.values(), KEYS_NAME, INDEX_NAME)
    pairs += [(name, peer, peer, MANY_AIM) for name in of_many for peer in taken if peer == "lmdb get"]
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


def _scans_keys(place: Path, keys: Sequence[Sequence[bytes]]) -> Side:
    """Return a side that makes the first calls, and returns what all of them would take."""
    few = keys[:KEY_CALLS]
    side = _called(place, "r", attrgetter("read_keys"), few)
    return lambda: side() * sum(map(len, keys)) / sum(map(len, few))


def _finds_keys(log: seglog.Log) -> Callable[[Sequence[bytes]], object]:
    return seglog.KeyIndex(log).read_keys


def _called(
    place: Path, mode: Literal["a", "r"], of: Callable[[seglog.Log], Callable[[Any], object]], arguments: Sequence[Any]
) -> Side:
    """Return a side that makes a call with each argument. of: returns what is called, of a log; not timed."""

    def run() -> float:
        with seglog.open(place, mode=mode) as log:
            call = of(log)
            with stopwatch() as watch:
                for argument in arguments:
                    call(argument)
        return watch.seconds

    return run
