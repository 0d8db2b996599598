"""Places where no log can be opened: a clear error, and the files there stay unchanged."""

from __future__ import annotations

import json
import os
import shutil
import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
from xxhash import xxh64_intdigest

import seglog
from seglog import LogConfig

MODES = ["a", "r"]


def opened(path: Path, mode: Any) -> None:
    seglog.open(path, mode=mode).close()


@pytest.mark.parametrize("mode", MODES)
def test_a_file_is_not_a_log(tmp_path: Path, mode: str) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(b"dear diary")
    with pytest.raises(seglog.NotALog, match=r"this is a file.*notes\.txt") as caught:
        opened(file, mode)
    assert isinstance(caught.value, OSError)
    assert file.read_bytes() == b"dear diary"


@pytest.mark.parametrize("mode", MODES)
def test_a_directory_of_something_else_is_left_alone(tmp_path: Path, contents: Any, mode: str) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"meow")
    before = contents(tmp_path)
    with pytest.raises(seglog.NotALog, match=r"not a log, it contains 'cat\.jpg'") as caught:
        opened(tmp_path / "photos", mode)
    assert isinstance(caught.value, OSError)
    assert contents(tmp_path) == before


def test_a_reader_creates_nothing(tmp_path: Path, contents: Any) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("nothing", "empty", "deep/below/nothing"):
        with pytest.raises(seglog.LogNotFound, match="no log here") as caught:
            opened(tmp_path / name, "r")
        assert isinstance(caught.value, FileNotFoundError)
        assert caught.value.filename == str(tmp_path / name)
    assert contents(tmp_path) == {"empty": None}


def test_verify_and_repair_need_a_log(tmp_path: Path, contents: Any) -> None:
    for call in (seglog.verify, seglog.repair):
        with pytest.raises(seglog.LogNotFound):
            call(tmp_path / "nothing")
    assert contents(tmp_path) == {}


def test_an_empty_directory_becomes_a_log_and_so_does_a_deep_path(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    opened(tmp_path / "empty", "a")
    opened(tmp_path / "deep" / "below" / "orders", "a")
    opened(tmp_path / "deep" / "below" / "orders", "r")


def test_a_path_is_taken_in_every_form_and_keeps_its_meaning_when_the_directory_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with seglog.open("größe und raum") as log:
        monkeypatch.chdir("/")
        log.append(b"v")
        log.truncate(0)
        log.append(b"w")
        assert log.path == str(tmp_path / "größe und raum")
    with seglog.open(seglog.LocalStorage(tmp_path / "größe und raum"), mode="r") as reader:
        assert reader.read(0).value == b"w"


@pytest.mark.parametrize("place", [5, None, b"orders", ["orders"], object()])
def test_a_log_is_opened_at_a_path_or_a_storage(place: Any) -> None:
    with pytest.raises(seglog.InvalidType, match="with a path or a Storage"):
        seglog.open(place)


@pytest.mark.parametrize("place", ["", "a\0b"])
def test_a_path_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(seglog.InvalidArgument, match="path"):
        seglog.open(place)
    assert list(tmp_path.iterdir()) == []


def test_wrong_options_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    path, any_ = tmp_path / "orders", seglog.open
    refusals: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"mode": "w"}, seglog.InvalidArgument, "mode is 'w'"),
        ({"mode": None}, seglog.InvalidArgument, "mode is None"),
        ({"mode": "r", "expose": "all"}, seglog.InvalidArgument, "expose is 'all'"),
        ({"expose": "durable"}, seglog.InvalidArgument, 'mode="r"'),
        ({"config": {"segment_bytes": 1024}}, seglog.InvalidType, "config must be a seglog.LogConfig, not dict"),
        ({"config": LogConfig(), "mode": "r"}, seglog.ConfigError, "a reader uses the log's stored config"),
        ({"clock": 5}, seglog.InvalidType, "clock must be"),
    ]
    for options, kind, message in refusals:
        with pytest.raises(kind, match=message) as caught:
            any_(path, **options)
        assert isinstance(caught.value, seglog.SeglogError)
    assert list(tmp_path.iterdir()) == []


# --- a newer version ---------------------------------------------------------------------------------------------


def a_log(path: Path) -> None:
    with seglog.open(path, LogConfig(segment_bytes=512)) as log:
        for i in range(20):
            log.append(b"%d" % i * 30)


def rewrite_manifest(path: Path, change: Any) -> None:
    """Change the header of a manifest and seal it again, as a newer version would have written it."""
    first, newline, rest = (path / "MANIFEST").read_bytes().partition(b'{"check"')[0].partition(b"\n")
    header = json.loads(first)
    change(header)
    body = json.dumps(header).encode() + newline + rest
    (path / "MANIFEST").write_bytes(body + b'{"check":"%016x"}\n' % xxh64_intdigest(body))


def make_store_newer(store: Path, *, version: int = 1, flags: int = 0) -> None:
    data = bytearray(store.read_bytes())
    struct.pack_into("<HHI", data, 8, version, 64, flags)
    struct.pack_into("<Q", data, 56, xxh64_intdigest(bytes(data[:56])))
    store.write_bytes(data)


@pytest.mark.parametrize("mode", MODES)
def test_a_newer_manifest_is_refused_and_not_touched(path: Path, contents: Any, mode: str) -> None:
    a_log(path)
    rewrite_manifest(path, lambda header: header.update(format=4))
    before = contents(path)
    with pytest.raises(seglog.FormatVersionError, match=r"MANIFEST.*version 4.*Install a newer seglog") as caught:
        opened(path, mode)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(seglog.FormatVersionError):
        seglog.repair(path)
    assert contents(path) == before


@pytest.mark.parametrize("mode", MODES)
def test_an_option_of_a_newer_version_is_not_damage(path: Path, contents: Any, mode: str) -> None:
    a_log(path)
    rewrite_manifest(path, lambda header: header["config"].update(encryption="aes"))
    before = contents(path)
    with pytest.raises(seglog.FormatVersionError, match="encryption"):
        opened(path, mode)
    assert contents(path) == before


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("newer", [{"version": 2}, {"flags": 2}])
def test_a_newer_active_store_is_refused_and_not_touched(path: Path, contents: Any, mode: str, newer: Any) -> None:
    a_log(path)
    make_store_newer(sorted(path.glob("*.store"))[-1], **newer)
    before = contents(path)
    with pytest.raises(seglog.FormatVersionError, match=r"\.store.*Install a newer seglog"):
        opened(path, mode)
    assert contents(path) == before


@pytest.mark.parametrize("mode", MODES)
def test_a_newer_sealed_store_is_refused_when_read(path: Path, mode: Any) -> None:
    a_log(path)
    store = sorted(path.glob("*.store"))[0]
    make_store_newer(store, version=9)
    before = store.read_bytes()
    with seglog.open(path, mode=mode) as log:
        with pytest.raises(seglog.FormatVersionError, match="version 9"):
            log.read(0)
        assert log.read(19).value == b"19" * 30
    assert store.read_bytes() == before


# --- no right to write -------------------------------------------------------------------------------------------

AS_NOBODY = """
import os, sys, seglog
import seglog.arrow.convert, seglog.log.repair.verify
path, mode = sys.argv[1:]
with seglog.open(seglog.MemoryStorage()) as warm:  # compiled code is kept where only its owner may write
    warm.append(b"v")
    warm.to_arrow(), warm.verify()
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    with seglog.open(path, mode=mode) as log:
        print("opened", [record.offset for record in log.scan()], log.to_arrow().num_rows, log.verify().ok)
except seglog.SeglogError as error:
    print(type(error).__name__, isinstance(error, OSError), error.errno, error.filename)
"""


@pytest.fixture
def public() -> Any:
    """Return a directory that everybody may look into, as tmp_path is not."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    if not all(parent.stat().st_mode & 0o005 == 0o005 for parent in directory.parents):
        pytest.skip("the directory of temporary files is not open to others")
    yield directory
    for found in [directory, *directory.rglob("*")]:
        if found.is_dir():
            found.chmod(0o755)
    shutil.rmtree(directory)


def without_rights(path: Path) -> None:
    for found in [path, *path.rglob("*")]:
        found.chmod(0o555 if found.is_dir() else 0o444)


@pytest.mark.skipif(os.name != "posix", reason="rights are those of POSIX")
def test_without_the_right_to_write_a_log_can_be_read_and_says_why_it_cannot_be_written(
    public: Path, script: Any, contents: Any
) -> None:
    path = public / "orders"
    with seglog.open(path, LogConfig(segment_bytes=512)) as log:
        for i in range(10):
            log.append(b"%d" % i * 60)
    for index in path.glob("*.index"):
        index.unlink()  # a reader rebuilds lookups in memory and cannot write them here
    without_rights(path)
    before = contents(path)
    assert script(AS_NOBODY, path, "r").split() == f"opened {list(range(10))} 10 False".split()
    kind, is_os_error, errno, *_ = script(AS_NOBODY, path, "a").split()
    assert (kind, is_os_error, errno) == ("StorageError", "True", "13")
    assert contents(path) == before


def test_a_log_cannot_be_made_where_nothing_may_be_written(public: Path, script: Any) -> None:
    (public / "closed").mkdir()
    (public / "closed").chmod(0o555)
    answer = script(AS_NOBODY, public / "closed" / "orders", "a")
    assert answer.split() == ["StorageError", "True", "13", str(public / "closed" / "orders")]
    assert list((public / "closed").iterdir()) == []


@pytest.mark.parametrize("mode", MODES)
def test_a_fifo_that_is_named_like_a_store_is_an_error_that_names_it_and_blocks_nothing(path: Path, mode: Any) -> None:
    opened(path, "a")
    os.mkfifo(path / "00000000000000000000-9.store")
    with pytest.raises(seglog.StorageError, match=r"-9\.store"):
        opened(path, mode)
