from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import seglog
from seglog.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

ALL_BYTES = bytes(range(256))


def records(path: Any) -> list[Any]:
    with seglog.open(path, mode="r") as log:
        return list(log.scan())


def test_a_value_goes_in_and_its_offset_comes_out(cli: Callable[..., Any], path: Any) -> None:
    assert cli("append", path, "hello").out == b"0\n"
    assert cli("append", path, "world", "--json").json == {"offset": 1}
    assert [record.value for record in records(path)] == [b"hello", b"world"]


def test_standard_input_goes_in_byte_for_byte(cli: Callable[..., Any], path: Any) -> None:
    for words in ((), ("-",)):
        assert cli("append", path, *words, stdin=ALL_BYTES * 5000).code == 0
    assert [record.value for record in records(path)] == [ALL_BYTES * 5000] * 2


def test_standard_input_is_never_held_as_a_whole(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.RawIOBase):
        left = 20

        def read1(self, size: int = -1) -> bytes:
            assert 0 < size <= 1 << 20
            self.left -= 1
            return b"x" * size if self.left >= 0 else b""

        def read(self, size: int = -1) -> bytes:
            raise AssertionError("read as a whole")

    class Stdin:
        buffer = Endless()

    monkeypatch.setattr(sys, "stdin", Stdin())
    assert main(["append", str(path)]) == 0
    assert len(records(path)[0].value) == 20 << 20


def test_an_empty_value_is_a_value(cli: Callable[..., Any], path: Any) -> None:
    assert cli("append", path, "").code == 0
    assert cli("append", path, stdin=b"").code == 0
    assert [record.value for record in records(path)] == [b"", b""]


def test_key_headers_and_timestamp_are_kept(cli: Callable[..., Any], path: Any) -> None:
    cli(
        "append",
        path,
        "v",
        "--key",
        "k",
        "--header",
        "a=1",
        "--header",
        "b",
        "--timestamp",
        "2024-05-01T12:00:00Z",
    )
    [record] = records(path)
    assert record == (0, 1_714_564_800_000_000, b"k", b"v", (("a", b"1"), ("b", None)))


def test_a_tombstone_needs_a_key_and_has_no_value(cli: Callable[..., Any], path: Any) -> None:
    assert cli("append", path, "--tombstone").code == 2
    assert cli("append", path, "v", "--tombstone", "--key", "k").code == 2
    assert not path.exists()
    assert cli("append", path, "--tombstone", "--key", "k").code == 0
    assert records(path)[0][2:4] == (b"k", None)


def test_every_line_is_a_record(cli: Callable[..., Any], path: Any) -> None:
    assert cli("append", path, "--lines", stdin=b"a\n\nb\xff\nno end").out == b"0\n1\n2\n3\n"
    assert [record.value for record in records(path)] == [b"a", b"", b"b\xff", b"no end"]


def test_lines_may_end_with_another_delimiter_and_begin_with_keys(cli: Callable[..., Any], path: Any) -> None:
    cli("append", path, "--lines", "--null", "--key-separator", r"\t", "--sync", stdin=b"k\tone\ntwo\0j\t\0")
    assert [record[2:4] for record in records(path)] == [(b"k", b"one\ntwo"), (b"j", b"")]


def test_a_bad_line_says_how_many_records_went_in_before_it(cli: Callable[..., Any], path: Any) -> None:
    ended = cli("append", path, "--lines", "--key-separator", ":", stdin=b"a:1\nb:2\nc\n")
    assert ended.code == 2
    assert ended.out == b"0\n1\n"
    assert "line 3" in ended.err
    assert "2 records appended before that: offsets 0 to 1" in ended.err
    assert ended.err.count("\n") == 1
    assert len(records(path)) == 2


def test_options_that_contradict_each_other_are_refused(cli: Callable[..., Any], path: Any) -> None:
    assert cli("append", path, "v", "--lines").code == 2
    assert cli("append", path, "--key-separator", ":").code == 2
    assert cli("append", path, "--lines", "--key-separator", ":", "--key", "k").code == 2
    assert cli("append", path, "v", "--null", "--delimiter", "x").code == 2
    assert not path.exists()


def test_config_options_change_only_what_they_say(cli: Callable[..., Any], path: Any) -> None:
    cli("append", path, "v", "--segment-bytes", "1MiB", "--retention-age", "7d", "--initial-offset", "5")
    cli("append", path, "v", "--retention-bytes", "1GB")
    with seglog.open(path, mode="r") as log:
        assert log.lowest_offset == 5
        assert log.config.segment_bytes == 2**20
        assert log.config.segment_overflow_bytes == 2**19
        assert (log.config.retention.age, log.config.retention.bytes) == (604_800, 10**9)


def test_a_record_that_can_never_fit_is_refused_and_leaves_nothing(cli: Callable[..., Any], path: Any) -> None:
    small = ("--segment-bytes", "512", "--segment-overflow-bytes", "0")
    assert cli("append", path, "x" * 1000, *small).code == 2
    assert cli("append", path, stdin=b"x" * 1000).code == 2
    assert records(path) == []


def test_a_config_that_cannot_be_is_a_usage_error(cli: Callable[..., Any], path: Any) -> None:
    assert cli("append", path, "v", "--segment-bytes", "8GiB").code == 2


def test_a_log_that_is_being_written_is_exit_code_4(cli: Callable[..., Any], path: Any) -> None:
    with seglog.open(path):
        ended = cli("append", path, "v", "--json")
    assert ended.code == 4
    assert '"error": "LogLocked"' in ended.err


def test_a_path_that_is_not_a_log_is_exit_code_3(cli: Callable[..., Any], tmp_path: Any) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    assert cli("append", file, "v").code == 3
    assert file.read_text() == "mine"
