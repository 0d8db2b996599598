"""Snapshots: a replay continues from the newest one that belongs to the log, and notices every other."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seglog
from seglog import LogConfig, MachineFailed, MemoryStorage, PerKey, Retention, Snapshots, Topic
from seglog.format import snapshot as snapshot_format
from seglog.format.snapshot import DamagedSnapshot, SnapshotHeader
from tests.machines.machines import Chain, Heard, Refuses, chained, fill, states_at

if TYPE_CHECKING:
    from seglog.types import ReplayedLog

SMALL = LogConfig(segment_bytes=1024)
KEYED = LogConfig(segment_bytes=512, retention=Retention(compact=True, delete_retention=0))


@pytest.fixture
def states(tmp_path: Path) -> Path:
    return tmp_path / "states"


def resumed(log: Any, states: Any, **options: Any) -> ReplayedLog[int]:
    """Replay with snapshots; check that the state is that of a replay without them."""
    found = seglog.replay(log, Chain(), snapshots=states, **options)
    assert found.state == seglog.replay(log, Chain(), **options).state
    return found.partitions[0]


def test_a_replay_continues_from_the_newest_snapshot(tmp_path: Path, states: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        for number in range(5):
            fill(log, 100)
            found = resumed(log, states)
            assert (found.resumed_at, found.records) == (number * 100 or None, 100)
        assert resumed(log, states).records == 0
        assert Snapshots(states).offsets() == [400, 500], "the last two are kept"
        assert sorted(path.name for path in states.iterdir()) == [f"0-{at:020d}.snapshot" for at in (400, 500)]


def test_a_long_replay_stores_snapshots_on_its_way(tmp_path: Path, states: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        fill(log, 5000)
        log.append(b"refuse")
        with pytest.raises(MachineFailed):
            seglog.replay(log, Refuses(), snapshots=Snapshots(states, every=1500, keep=10))
        stored = Snapshots(states).offsets()
        assert len(stored) >= 2
        found = seglog.replay(log, Refuses(), stop=5000, snapshots=states).partitions[0]
        assert (found.resumed_at, found.state) == (stored[-1], chained(log.scan(0, 5000)))


def test_the_state_as_of_an_offset_uses_the_snapshot_before_it(tmp_path: Path, states: Path) -> None:
    kept = Snapshots(states, keep=100)
    with seglog.open(tmp_path / "log", SMALL) as log:
        for _ in range(6):
            fill(log, 50)
            seglog.replay(log, Chain(), snapshots=kept)
        expected = dict(states_at(log))
        for stop in (0, 49, 50, 51, 123, 299, 300):
            found = seglog.replay(log, Chain(), snapshots=kept, stop=stop)
            assert found.state == expected[stop]
            assert found.partitions[0].resumed_at == (stop // 50 * 50 or None)
        assert kept.offsets() == [50, 100, 150, 200, 250, 300], "states as of earlier offsets add none"


def test_a_snapshot_of_what_was_truncated_is_not_used(tmp_path: Path, states: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        for _ in range(2):
            fill(log, 100)
            resumed(log, states)
        log.truncate(150)
        found = resumed(log, states)
        assert found.resumed_at == 100
        assert "ends at offset 150" in found.unusable[f"0-{200:020d}.snapshot"]
        assert Snapshots(states).offsets() == [100, 150], "it is removed once there is a newer one"
        fill(log, 50, "other")
        assert resumed(log, states).resumed_at == 150
        log.truncate(120)
        fill(log, 200, "third")
        found = resumed(log, states)
        assert (found.resumed_at, len(found.unusable)) == (None, 2)
        assert "truncated below its offset" in found.unusable[f"0-{150:020d}.snapshot"]


def test_snapshots_of_a_log_that_was_created_again_are_reported(tmp_path: Path, states: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        fill(log, 10)
        resumed(log, states)
        log.remove()
    with seglog.open(tmp_path / "log") as log:
        fill(log, 10)
        with pytest.raises(seglog.LogReplaced, match="of another log"):
            seglog.replay(log, Chain(), snapshots=states)
    assert Snapshots(states).offsets() == [10], "nothing is deleted"


def test_a_copied_directory_that_went_on_differently_is_noticed(tmp_path: Path, states: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        fill(log, 50)
    shutil.copytree(tmp_path / "log", tmp_path / "copied")
    with seglog.open(tmp_path / "log") as log:
        fill(log, 50)
        resumed(log, states)
    with seglog.open(tmp_path / "copied") as log:
        fill(log, 60, "in the copied one")
        found = resumed(log, states)
    assert "another record at offset 99" in str(found.unusable)


def test_copies_share_snapshots_with_their_leader(tmp_path: Path, states: Path) -> None:
    with seglog.open(tmp_path / "leader", SMALL) as log:
        fill(log, 100)
        resumed(log, states)
        fill(log, 100)
        with seglog.Mirror(tmp_path / "leader", tmp_path / "copy") as mirror:
            mirror.step()
        assert resumed(tmp_path / "copy", states).resumed_at == 100
        assert resumed(log, states).resumed_at == 200


def test_snapshots_replace_the_records_that_a_log_expired(tmp_path: Path, states: Path) -> None:
    with seglog.open(tmp_path / "log", LogConfig(segment_bytes=1024, retention=Retention(bytes=3000))) as log:
        total = 0
        for _ in range(6):
            fill(log, 60)
            found = seglog.replay(log, Heard(), snapshots=states)
            total += found.records
            log.expire()
        assert log.lowest_offset > 200
        assert (found.state, total) == (list(range(360)), 360)
        fill(log, 300)
        log.expire()
        with pytest.raises(seglog.OffsetOutOfRange) as caught:
            seglog.replay(log, Heard(), snapshots=states)
        assert "have expired" in str(caught.value.__notes__)
        assert Snapshots(states).offsets() == [300, 360], "nothing is deleted"


def test_snapshots_work_in_a_compacted_log(tmp_path: Path, states: Path) -> None:
    with seglog.open(tmp_path / "log", KEYED) as log:
        for _ in range(8):
            fill(log, 50)
            seglog.replay(log, Heard(), snapshots=states)
            log.compact(roll=True)
        found = seglog.replay(log, Heard(), snapshots=states)
        assert found.state == list(range(400)), "each record was applied before it was compacted"
        fill(log, 1, keys=1)
        log.compact(roll=True)
        log.truncate(log.next_offset - 1)
        assert seglog.replay(log, Heard(), snapshots=states).state == list(range(400))


@pytest.mark.parametrize("how", ["bit", "cut", "empty", "longer", "renamed"])
def test_a_damaged_snapshot_is_noticed_and_the_earlier_one_used(how: str, tmp_path: Path, states: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        for _ in range(2):
            fill(log, 100)
            resumed(log, states)
        newest = states / snapshot_format.snapshot_file(0, 200)
        data = newest.read_bytes()
        if how == "bit":
            newest.write_bytes(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])
        elif how == "renamed":
            newest = newest.rename(states / snapshot_format.snapshot_file(0, 199))
        else:
            newest.write_bytes({"cut": data[:-1], "empty": b"", "longer": data + b"1"}[how])
        found = resumed(log, states)
        assert (found.resumed_at, list(found.unusable)) == (100, [newest.name])
        assert Snapshots(states).offsets() == [100, 200]
        assert resumed(log, states).resumed_at == 200


@dataclass(frozen=True)
class Versioned(Chain):
    version: int = 1


def test_snapshots_of_another_version_or_machine_are_not_used(tmp_path: Path, states: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        fill(log, 10)
        seglog.replay(log, Versioned(), snapshots=states)
        assert seglog.replay(log, Versioned(), snapshots=states).partitions[0].resumed_at == 10
        found = seglog.replay(log, Versioned(version=2), snapshots=states).partitions[0]
        assert (found.resumed_at, found.state) == (None, chained(log.scan()))
        assert "another version of the machine: 1" in str(found.unusable)
        assert seglog.replay(log, Versioned(version=2), snapshots=states).partitions[0].resumed_at == 10
        with pytest.raises(seglog.InvalidArgument, match="are of Versioned, not of Chain"):
            seglog.replay(log, Chain(), snapshots=states)
        with pytest.raises(seglog.InvalidArgument, match="are of Versioned, not of Versioned per key"):
            seglog.replay(log, PerKey(Versioned(version=2)), snapshots=states)


def test_the_parameters_of_a_dataclass_are_its_version(tmp_path: Path, states: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        fill(log, 10)
        seglog.replay(log, Chain(), snapshots=states)
        found = seglog.replay(log, Chain(first=7), snapshots=states)
        assert found.state == chained(log.scan(), 7)
        assert "Chain(first=0)" in str(found.partitions[0].unusable)


class Text(Chain):
    """A machine whose encoding is no bytes."""

    def encode(self, state: int) -> Any:
        return str(state)


class Undecodable(Chain):
    def decode(self, data: bytes) -> int:
        raise KeyError("balance")


def test_mistakes_of_the_encoding_are_explained_and_store_nothing(tmp_path: Path, states: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        fill(log, 10)
        with pytest.raises(seglog.InvalidType, match=r"what Text\.encode returns must be bytes") as caught:
            seglog.replay(log, Text(), snapshots=states)
        assert "before offset 10" in str(caught.value.__notes__)
        assert not states.exists()
        seglog.replay(log, Undecodable(), snapshots=states)
        with pytest.raises(KeyError) as missing:
            seglog.replay(log, Undecodable(), snapshots=states)
        assert snapshot_format.snapshot_file(0, 10) in str(missing.value.__notes__)


def test_a_place_where_no_snapshot_can_be_stored_is_an_error(tmp_path: Path, states: Path) -> None:
    states.write_bytes(b"a file")
    with seglog.open(tmp_path / "log") as log:
        fill(log, 10)
        with pytest.raises(OSError, match="states"):
            seglog.replay(log, Chain(), snapshots=states)


def test_an_archive_is_replayed(tmp_path: Path, states: Path) -> None:
    url = f"file://{tmp_path}/archive"
    with seglog.open(tmp_path / "log", SMALL) as log, seglog.Archiver(tmp_path / "log", url) as archiver:
        fill(log, 300)
        archiver.step()
        expected = seglog.replay(log, Chain(), snapshots=states).state
    found = seglog.replay(url, Chain(), snapshots=states)
    assert (found.state, found.partitions[0].resumed_at) == (expected, 300)
    assert seglog.replay(url, Chain(), stop=200).next_offset == 200
    with Topic.create(tmp_path / "topic", partitions=2) as topic:
        for number in range(50):
            topic.append(b"%d" % number, key=b"%d" % number)
        states_of_topic = seglog.replay(topic, Chain()).states
    with seglog.Archiver(tmp_path / "topic", url + "-of-topic") as archiver:
        archiver.step()
    assert seglog.replay(url + "-of-topic", Chain()).states == states_of_topic


def test_an_earlier_result_is_continued_and_stored(tmp_path: Path, states: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        fill(log, 10)
        found = seglog.replay(log, Chain(), snapshots=states)
        for _ in range(3):
            fill(log, 10)
            found = seglog.replay(log, Chain(), start=found, snapshots=states)
            assert found.records == 10
        assert Snapshots(states).offsets() == [30, 40]
        assert resumed(log, states).records == 0


def test_partitions_and_keys_have_snapshots(tmp_path: Path, states: Path) -> None:
    with Topic.create(tmp_path / "topic", partitions=3) as topic:
        for _ in range(3):
            for number in range(100):
                topic.append(b"%d" % number, key=b"%d" % (number % 7))
            found = seglog.replay(topic, PerKey(Chain()), snapshots=states)
            assert found.states == seglog.replay(topic, PerKey(Chain())).states
            assert found.records == 100
        assert [len(Snapshots(states).offsets(number)) for number in range(3)] == [2, 2, 2]


def test_snapshots_may_be_in_a_storage() -> None:
    storage, states = MemoryStorage(), MemoryStorage()
    with seglog.open(storage) as log:
        for number in range(3):
            fill(log, 10)
            assert resumed(log, states).resumed_at == (number * 10 or None)


@pytest.mark.parametrize(("options", "error"), [({"keep": 0}, "keep is 0"), ({"every": -1}, "every is -1")])
def test_options_are_checked(options: dict[str, int], error: str) -> None:
    with pytest.raises(seglog.InvalidArgument, match=error):
        Snapshots("states", **options)
    with pytest.raises(seglog.InvalidType):
        Snapshots(5)  # type: ignore[arg-type] # that is the point
    with pytest.raises(seglog.InvalidType):
        Snapshots("states", every="1")  # type: ignore[arg-type] # that is the point


# --- the format -----------------------------------------------------------------------------------------------------

HEADER = SnapshotHeader(
    machine="Bank",
    version="",
    partition=3,
    offset=42,
    log="0123456789abcdef",
    epoch=2,
    file=None,
    last=41,
    last_check="00",
    written=7,
)


@given(st.binary(max_size=200), st.integers(0, 2**63 - 1), st.text(max_size=20))
def test_a_snapshot_is_read_as_it_was_written(body: bytes, offset: int, version: str) -> None:
    header = replace(HEADER, offset=offset, version=version)
    assert snapshot_format.decode(snapshot_format.encode_header(header, body) + body) == (header, body)
    assert snapshot_format.parse_snapshot_file(header.name) == (3, offset)


def test_every_changed_byte_of_a_snapshot_is_noticed() -> None:
    data = snapshot_format.encode_header(HEADER, b"state") + b"state"
    for at in range(len(data)):
        for bit in range(8):
            changed = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            with pytest.raises(DamagedSnapshot):
                snapshot_format.decode(changed)
        with pytest.raises(DamagedSnapshot):
            snapshot_format.decode(data[:at])


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.replace(b'"format":1,', b""),
        lambda line: line.replace(b'"epoch":2', b'"epoch":true'),
        lambda line: line.replace(b'"offset":42', b'"offset":null'),
        lambda line: line.replace(b"0123456789abcdef", b"another log"),
        lambda line: line.replace(b'"last":41,', b""),
        lambda line: b"[1]\n",
        lambda line: b"[" * 9999 + b"\n",
        lambda line: b"\n",
    ],
)
def test_a_header_of_any_other_shape_is_damage(change: Any) -> None:
    with pytest.raises(DamagedSnapshot):
        snapshot_format.decode(with_line(change, b"x"))


def with_line(change: Any, body: bytes) -> bytes:
    line = snapshot_format.encode_header(HEADER, body).split(b"\n")[0] + b"\n"
    changed: bytes = change(line)
    return changed + snapshot_format._check_line(changed) + body


def test_a_snapshot_of_a_newer_version_of_seglog_is_reported_and_kept(tmp_path: Path, states: Path) -> None:
    newer = with_line(lambda line: line.replace(b'"format":1', b'"format":2'), b"x")
    states.mkdir()
    (states / HEADER.name.replace("3-", "0-")).write_bytes(newer)
    with seglog.open(tmp_path / "log") as log:
        fill(log, 50)
        with pytest.raises(seglog.FormatVersionError):
            seglog.replay(log, Chain(), snapshots=states)
    assert Snapshots(states).offsets() == [42]


def test_other_files_in_the_directory_stay(tmp_path: Path, states: Path) -> None:
    states.mkdir()
    names = ["notes.txt", "0-1.snapshot", "00-00000000000000000007.snapshot", "0-99999999999999999999.snapshot"]
    for name in names:
        (states / name).write_text("mine")
    with seglog.open(tmp_path / "log") as log:
        for _ in range(4):
            fill(log, 10)
            resumed(log, states)
    assert {path.name for path in states.iterdir()} >= set(names)
