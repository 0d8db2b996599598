"""Names from outside: an archive or a leader that names a directory outside of the target changes nothing there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from xxhash import xxh64_hexdigest

import seglog
from seglog.cli import main
from seglog.replication.places import LocalPlace
from seglog.replication.remote import RemotePlace
from seglog.topic.layout.names import checked_directory_name

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = ["../victim", "..", "../../victim/0", "/home/victim/0", ".", "o/../../victim", "o/..", "o\\..\\v/0"]


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    """An archive of a topic "o"; beside the target there is a log "victim"."""
    with seglog.open(tmp_path / "home" / "victim") as log:
        log.append(b"precious")
    with seglog.Broker(tmp_path / "src") as broker:
        broker.create_topic("o").append(b"evil")
        broker.sync()
    with seglog.Archiver(tmp_path / "src", f"file://{tmp_path}/bucket") as archiver:
        archiver.step()
    return tmp_path / "bucket"


def rewrite(bucket: Path, part: str, name: str) -> None:
    """Give what the newest commit calls "o" or "o/0" another name, with a check that holds."""
    newest = max((bucket / "commits").iterdir())
    commit = json.loads(newest.read_bytes().split(b"\n")[0])
    commit[part][name] = commit[part].pop("o/0" if part == "logs" else "o")
    line = json.dumps(commit, separators=(",", ":")).encode()
    newest.write_bytes(line + b'\n{"check":"%s"}\n' % xxh64_hexdigest(line).encode())


def tree(directory: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(directory.rglob("*")) if file.is_file()}


@pytest.mark.parametrize("part", ["logs", "topics"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_changes_nothing_beside_the_target(
    bucket: Path, tmp_path: Path, part: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(tmp_path / "home")
    rewrite(bucket, part, name)
    assert main(["restore", f"file://{bucket}", str(tmp_path / "home" / "target")]) == 2
    assert "nothing was changed" in capsys.readouterr().err
    assert tree(tmp_path / "home") == before
    assert not (tmp_path / "home" / "target").exists()


def test_an_archive_whose_objects_are_outside_of_it_is_refused(bucket: Path, tmp_path: Path) -> None:
    newest = max((bucket / "commits").iterdir())
    commit = json.loads(newest.read_bytes().split(b"\n")[0])
    commit["logs"]["o/0"]["segments"] = "../secret"
    line = json.dumps(commit, separators=(",", ":")).encode()
    newest.write_bytes(line + b'\n{"check":"%s"}\n' % xxh64_hexdigest(line).encode())
    (tmp_path / "secret").write_bytes(b"x")
    with pytest.raises(seglog.InvalidArgument, match="leads out"):
        seglog.restore(f"file://{bucket}", tmp_path / "home" / "target")


@pytest.mark.parametrize("place", [LocalPlace, RemotePlace])
def test_a_leader_that_lists_a_topic_outside_of_it_makes_no_file_there(
    tmp_path: Path, unsynced_url: str, place: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader: object = unsynced_url
    if place is LocalPlace:
        leader = tmp_path / "leader"
        with seglog.Broker(tmp_path / "leader") as broker:
            broker.create_topic("o").append(b"1")
    else:
        with seglog.Client(unsynced_url) as client:
            client.create_topic("escaping").append(b"1")
    listed = place.topics
    monkeypatch.setattr(place, "topics", lambda self: {f"../esc-{name}": one for name, one in listed(self).items()})
    (tmp_path / "home").mkdir()
    with (
        seglog.Mirror(leader, tmp_path / "home" / "copy") as mirror,
        pytest.raises(seglog.InvalidArgument, match="esc"),
    ):
        mirror.step()
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["copy"]


@pytest.mark.parametrize("name", ["../x", "a/../../x", ".."])
def test_no_storage_makes_a_path_that_leads_out_of_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "inner").mkdir()
    storage = seglog.storage.LocalStorage(tmp_path / "inner")
    for call in (storage.create, storage.open, storage.unlink, storage.identity, storage.names, storage.try_lock):
        with pytest.raises(seglog.InvalidArgument, match="leads out"):
            call(name)
    with pytest.raises(seglog.InvalidArgument, match="leads out"):
        storage.make([name])
    for outer in (storage, seglog.MemoryStorage()):
        with pytest.raises(seglog.InvalidArgument, match="leads out"):
            seglog.storage.Subdirectory(outer, name)
        with pytest.raises(seglog.InvalidArgument, match="leads out"):
            seglog.storage.Subdirectory(outer, "within").create(name)
    storage.make(["/absolute"])
    assert (tmp_path / "inner" / "absolute").is_dir()


@pytest.mark.parametrize("name", ["orders", "a b", "12", "MANIFEST", "größe", "a..b", "x" * 255])
def test_directories_that_older_versions_made_are_still_copied(name: str) -> None:
    assert checked_directory_name(name, "the leader") == name


@pytest.mark.parametrize("name", ["", ".", "..", ".groups", "a/b", "a\\b", "a\x00", "a\n", "\ud800", "é" * 128, None])
def test_what_is_no_name_of_a_directory_is_refused(name: object) -> None:
    with pytest.raises(seglog.InvalidArgument, match="the leader names"):
        checked_directory_name(name, "the leader")
