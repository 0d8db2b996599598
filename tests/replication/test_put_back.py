"""A leader whose directory is put back to an earlier state while the machine runs on: no epoch shows it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import Mirror
from seglog.replication import sameness, wire
from seglog.replication.sameness import digests_before
from seglog.replication.source import fetch_from
from tests.replication.conftest import KEYED, SMALL, fill
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Served


def put_back(directory: Path, saved: Path) -> None:
    shutil.rmtree(directory)
    shutil.copytree(saved, directory)


def test_a_leader_that_was_put_back_and_went_on_past_the_copy_is_refused(
    source: Path, target: Path, tmp_path: Path, same: Any
) -> None:
    with seglog.open(source) as log:
        fill(log, 50)
    shutil.copytree(source, tmp_path / "saved")
    with seglog.open(source) as log:
        fill(log, 50, "old")
    with Mirror(source, target) as mirror:
        mirror.step()
    put_back(source, tmp_path / "saved")
    with seglog.open(source) as log:
        fill(log, 100, "new")
    with pytest.raises(seglog.CopyDiverged, match="different records at offset 96"):
        Mirror(source, target)
    with seglog.open(target, mode="r") as copy:
        assert copy.read(99).value == b"old 49"
        assert copy.next_offset == 100
    with Mirror(source, target, restart=True) as mirror:
        mirror.step()
        assert mirror.step() == 0
    same(source, target)


def put_back_by_chance(directory: Path, saved: Path) -> None:
    """Put a log back, and let its MANIFEST get the inode of the one before, as file systems do when it is free."""
    manifest, before = directory / "MANIFEST", (directory / "MANIFEST").stat()
    for path in saved.iterdir():
        if path.is_file() and path.name != "MANIFEST":
            (directory / path.name).unlink(missing_ok=True)
            shutil.copy2(path, directory)
    text = (saved / "MANIFEST").read_bytes()
    until(lambda: manifest.write_bytes(text) and manifest.stat().st_ctime_ns > before.st_ctime_ns)
    shutil.copystat(saved / "MANIFEST", manifest)


@pytest.mark.parametrize("put_back", [put_back, put_back_by_chance])
@pytest.mark.parametrize("added", [50, 100])
def test_a_running_copy_notices_that_its_leader_was_put_back(
    source: Path, target: Path, tmp_path: Path, added: int, put_back: Callable[[Path, Path], None]
) -> None:
    """added: so that the leader ends where the copy ends, or after it."""
    with seglog.open(source) as log:
        fill(log, 50)
    shutil.copytree(source, tmp_path / "saved")
    with Mirror(source, target) as mirror:
        with seglog.open(source) as log:
            fill(log, 50, "old")
            mirror.step()
        put_back(source, tmp_path / "saved")
        with seglog.open(source) as log:
            fill(log, added, "new")
        with pytest.raises(seglog.CopyDiverged, match="put back"):
            mirror.step()
        assert mirror._present()["", 0].position == 100


def test_a_leader_of_equal_records_but_for_a_null_value_is_refused(source: Path, target: Path, tmp_path: Path) -> None:
    seglog.open(source).close()
    shutil.copytree(source, tmp_path / "saved")
    with seglog.open(source) as log:
        log.append(b"", key=b"k", timestamp=1)
    with Mirror(source, target) as mirror:
        mirror.step()
    put_back(source, tmp_path / "saved")
    with seglog.open(source) as log:
        log.append(None, key=b"k", timestamp=1)
    with pytest.raises(seglog.CopyDiverged):
        Mirror(source, target)


def test_a_server_that_was_put_back_is_refused_while_its_copy_runs(
    serve: Callable[..., Served], tmp_path: Path, target: Path
) -> None:
    leader = serve()
    with seglog.Client(leader.url) as client:
        topic = client.create_topic("orders")
        topic.append(b"kept", ack="durable")  # else its opening begins an epoch
        shutil.copytree(leader.root, tmp_path / "saved")
        with Mirror(leader.url, target) as mirror:
            for value in (b"old 1", b"old 2"):
                topic.append(value)
            mirror.step()
            leader.kill()
            put_back(leader.root, tmp_path / "saved")
            leader.start()
            with seglog.Client(leader.url) as again:
                for value in (b"new 1", b"new 2", b"new 3"):
                    again.topic("orders").append(value)
            with pytest.raises(seglog.CopyDiverged, match=r"different records at offset 1\b"):
                mirror.step()
    with seglog.open(target / "orders" / "0", mode="r") as copy:
        assert [record.value for record in copy.scan()] == [b"kept", b"old 1", b"old 2"]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offset from which records are read each time to be compared, in this process."""
    found: list[int] = []
    read = sameness._digests

    def looked(view: Any, start: int, stop: int) -> sameness.Digests:
        found.append(start)
        return read(view, start, stop)

    monkeypatch.setattr(sameness, "_digests", looked)
    return found


def looks_of_idle_steps(mirror: Mirror, looks: list[int]) -> list[int]:
    """Let a copy get everything, and return where it looks at records in the steps after that."""
    mirror.step()
    mirror.step()
    looks.clear()
    for _ in range(3):
        mirror.step()
    return list(looks)


def test_a_copy_that_has_everything_reads_no_records_again_and_again(
    serve: Callable[..., Served], source: Path, target: Path, looks: list[int]
) -> None:
    leader = serve()
    with seglog.Client(leader.url) as client, Mirror(leader.url, target) as mirror:
        topic = client.create_topic("orders")
        topic.append(b"v" * 100_000)
        assert looks_of_idle_steps(mirror, looks) == []
        topic.append(b"more")
        mirror.step()
        mirror.step()
        assert looks == [0]
    with seglog.open(source) as log, Mirror(source, target.with_name("other")) as mirror:
        fill(log, 10)
        assert looks_of_idle_steps(mirror, looks) == []


def test_a_server_reads_records_once_for_all_copies_that_have_everything(source: Path, looks: list[int]) -> None:
    with seglog.open(source) as log:
        fill(log, 10)
        answers = [fetch_from(log.view(), 10, 1000) for _ in range(3)]
        assert [one.before for one in answers] == [answers[0].before] * 3
        assert (len(answers[0].before), looks) == (4, [6])
        fill(log, 1)
        assert sorted(fetch_from(log.view(), 11, 1000).before) == [7, 8, 9, 10]


def test_compaction_of_either_side_is_no_difference(source: Path, target: Path) -> None:
    with seglog.open(source, KEYED) as log, Mirror(source, target) as mirror:
        for _ in range(4):
            fill(log, 40, keys=2)
            mirror.step()
            log.compact(roll=True)
            fill(log, 40, keys=3)
            mirror.step()
            mirror._present()["", 0].log.compact()
            log.compact(roll=True)
        with Mirror(source, target.with_name("second")) as other:
            other.step()
            assert other.lag.records == 0


def test_a_put_back_leader_is_refused_although_compaction_left_a_gap_before_the_copys_end(
    source: Path, target: Path, tmp_path: Path
) -> None:
    seglog.open(source, KEYED).close()
    shutil.copytree(source, tmp_path / "saved")
    with seglog.open(source, KEYED) as log:
        log.append(b"old", key=b"kept")
        fill(log, 100, keys=2)
    with Mirror(source, target) as mirror:
        mirror.step()
    put_back(source, tmp_path / "saved")
    with seglog.open(source, KEYED) as log:
        log.append(b"new", key=b"kept")
        fill(log, 200, keys=2)
        log.compact(roll=True)
        assert len(digests_before(log.view(), 101)) == 1
    with pytest.raises(seglog.CopyDiverged, match="offset 0"):
        Mirror(source, target)


def test_copies_at_different_offsets_that_ask_again_and_again_read_no_records_again(
    source: Path, looks: list[int]
) -> None:
    with seglog.open(source) as log:
        fill(log, 100)
        view = log.view()
        for _ in range(3):
            assert [sorted(digests_before(view, offset))[-1] for offset in (50, 60)] == [49, 59]
        assert len(looks) == 2
        for offset in range(1, 100):
            digests_before(view, offset)
        assert len(sameness._KNOWN[view]) == sameness.MOST_KNOWN


def test_damage_before_the_copys_end_does_not_stop_it(source: Path, target: Path) -> None:
    with seglog.open(source, SMALL) as log:
        fill(log, 3)
        with Mirror(source, target) as mirror:
            mirror.step()
            store = next(source.glob("*.store"))
            data = bytearray(store.read_bytes())
            data[70] ^= 1  # of the first record
            store.write_bytes(data)
            log.append(b"more")
            assert mirror.step() > 0
            assert mirror._present()["", 0].position == 4


def test_the_answer_of_an_earlier_server_has_no_digests(source: Path) -> None:
    with seglog.open(source) as log:
        fill(log, 3)
        fetched = fetch_from(log.view(), 3, 1)
        assert set(fetched.before) == {0, 1, 2}
        body = wire.encode(fetched, pinned=False)
        assert wire.decode(body, "url")[0].before == fetched.before
        assert wire.decode(body.replace(b'"before"', b'"beyond"'), "url")[0].before == {}
