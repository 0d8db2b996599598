"""Reads of an archive, of which nothing stays for readers, with every change of its log at any call for its objects.

See tests/snapshots.py.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import Archiver, Retention
from tests.beside import FULL, PROOF, SOME, Setting, Trials, first_in_gate, newest, prove, rows
from tests.snapshots import CHANGES, KEYS, State, state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.proofs import Tell


def bucket_of(scratch: Path) -> str:
    return (scratch / "bucket").as_uri()


def scanned_there(_: Path, scratch: Path) -> State:
    with seglog.open(bucket_of(scratch), mode="r") as log:
        return state(log)


def as_table_there(_: Path, scratch: Path) -> State:
    with seglog.open(bucket_of(scratch), mode="r") as log:
        return rows(log.to_arrow())


def restored(_: Path, scratch: Path) -> State:
    seglog.restore(bucket_of(scratch), scratch / "restored")
    with seglog.open(scratch / "restored", mode="r") as log:
        return state(log)


def by_keys_there(_: Path, scratch: Path) -> State:
    with seglog.open(bucket_of(scratch), mode="r") as log:
        return newest(log.read_keys([b"k%d" % number for number in range(KEYS)]).values())


def tiered(path: Path, scratch: Path) -> State:
    with seglog.open(path, mode="r", archive=bucket_of(scratch)) as log:
        return state(log)


def tiered_as_table(path: Path, scratch: Path) -> State:
    with seglog.open(path, mode="r", archive=bucket_of(scratch)) as log:
        return rows(log.to_arrow())


OF_ARCHIVE = {"scan": scanned_there, "to_arrow": as_table_there, "restore": restored}
OF_TIERS = {"scan": tiered, "to_arrow": tiered_as_table}


@contextmanager
def archive_that_follows(place: Path, log: Any, change: Callable[[Any], object]) -> Iterator[Setting]:
    """Archive each change at once, without any time for readers of earlier states."""
    with Archiver(place / "log", bucket_of(place), keep=0, grace=0) as archiver:
        archiver.step()

        def change_and_archive() -> None:
            change(log)
            archiver.step()
            archiver.step()

        yield Setting(place / "bucket", change_and_archive)


@contextmanager
def archive_that_is_cleaned(place: Path, log: Any, _: object) -> Iterator[Setting]:
    """Delete from the archive what the log has deleted."""
    with Archiver(place / "log", bucket_of(place)) as archiver:
        archiver.step()
        log.alter(retention=Retention(bytes=1))
        log.expire()
        archiver.step()

    def clean() -> None:
        with Archiver(place / "log", bucket_of(place), keep=0, grace=0) as archiver:
            archiver.step()
            archiver.step()

    yield Setting(place / "bucket", clean)


@FULL
@pytest.mark.parametrize("change", SOME)
@pytest.mark.parametrize("reader", first_in_gate(OF_ARCHIVE))
def test_a_read_of_an_archive_that_is_cleaned_returns_one_moment_or_expires(
    reader: str, change: str, tmp_path: Path, full: bool, tell: Tell
) -> None:
    trials = Trials(tmp_path, OF_ARCHIVE[reader], CHANGES[change], setting=archive_that_follows)
    counts = prove(trials, lambda history, found: found in history.states(), full=full)
    tell(PROOF, reader=f"archive: {reader}", change=change, **counts)


@pytest.mark.proof
@pytest.mark.parametrize("change", CHANGES)
def test_a_lookup_in_an_archive_that_is_cleaned_returns_one_moment_or_expires(
    change: str, tmp_path: Path, tell: Tell
) -> None:
    trials = Trials(tmp_path, by_keys_there, CHANGES[change], setting=archive_that_follows)
    counts = prove(trials, lambda history, found: found in history.lookups(), full=True)
    tell(PROOF, reader="archive: read_keys", change=change, **counts)


@FULL
@pytest.mark.parametrize("reader", first_in_gate(OF_TIERS))
def test_a_read_of_what_only_an_archive_has_is_whole_or_expires_when_that_is_cleaned(
    reader: str, tmp_path: Path, full: bool, tell: Tell
) -> None:
    trials = Trials(tmp_path, OF_TIERS[reader], _nothing, setting=archive_that_is_cleaned)
    counts = prove(trials, lambda history, found: found in history.states(), full=full)
    tell(PROOF, reader=f"tiers: {reader}", change="cleaned", **counts)


def _nothing(_: object) -> None:
    """Change nothing."""


def verified(_: Path, scratch: Path) -> State:
    report = seglog.verify(bucket_of(scratch))
    assert report.problems == ()
    return []


@pytest.mark.proof
def test_an_archive_that_is_cleaned_while_it_is_verified_is_not_damaged(tmp_path: Path, tell: Tell) -> None:
    trials = Trials(tmp_path, verified, CHANGES["superseded and compacted"], setting=archive_that_follows)
    counts = prove(trials, lambda _, found: found == [], full=True)
    tell(PROOF, reader="archive: verify", change="superseded and compacted", **counts)
