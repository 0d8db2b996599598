"""`compact`, `explain`, `pin`, and what `append` and `info` know of logs that are compacted by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import seglog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RECORDS = 61


def make(path: Path, **retention: Any) -> Path:
    config = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(**{"compact": True, **retention}))
    with seglog.open(path, config) as log:
        for number in range(RECORDS - 1):
            log.append(b"." * 20, key=b"k%d" % (number % 8))
            if number == 5:
                log.append(None, key=b"once")
    return path


@pytest.fixture
def log(path: Path) -> Path:
    """A log with garbage in several sealed segments."""
    return make(path)


def content(path: Path) -> list[Any]:
    with seglog.open(path, mode="r") as log:
        return list(log.scan())


# --- compact --------------------------------------------------------------------------------------------------------


def test_compact_tells_in_words_what_it_did(cli: Callable[..., Any], log: Path) -> None:
    ended = cli("compact", log)
    assert (ended.code, ended.err) == (0, "")
    gone = RECORDS - len(content(log))
    assert f"removed {gone} records of" in ended.text
    assert "superseded, 0 tombstones, 0 without a key" in ended.text
    assert "of them copied" in ended.text
    assert "9 new keys read" in ended.text
    assert "nothing to remove in" in cli("compact", log).text
    assert cli("verify", log).code == 0


def test_compact_is_silent_when_told_so_and_json_for_programs(cli: Callable[..., Any], log: Path) -> None:
    told = cli("compact", log, "--json").json
    assert told["records_before"] - told["records_after"] == told["superseded"] > 0
    assert (told["dry_run"], told["damaged"]) == (False, [])
    assert told["seconds"] >= 0
    assert cli("compact", log, "--quiet").out == b""
    assert cli("compact", log, "--generational", "--rate", "50MiB").code == 0


def test_a_dry_run_counts_exactly_and_changes_nothing(cli: Callable[..., Any], log: Path) -> None:
    before = content(log)
    told = cli("compact", log, "--dry-run", "--json").json
    shown = cli("compact", log, "--dry-run").text
    assert content(log) == before
    assert shown.startswith("due: dirty; 100% of ")
    assert f"would remove {told['dead']} records of {told['records']}" in shown
    assert told["standing"]["due"] == "dirty"
    assert cli("compact", log, "--dry-run", "--generational").code == 0
    assert cli("compact", log, "--json").json["superseded"] == told["dead"]
    again = cli("compact", log, "--dry-run").text
    assert again.startswith("due: no; 0% of")
    assert "look again at" in again
    assert "would remove 0 records" in again


def test_a_log_that_is_not_compacted_by_key_is_refused_and_the_hint_works(cli: Callable[..., Any], path: Path) -> None:
    cli("append", path, "v")
    for words in (["compact", path], ["compact", path, "--dry-run"]):
        ended = cli(*words)
        assert ended.code == 2
        assert "retention.compact" in ended.err
        assert f"seglog append {path} --compact --lines" in ended.err
    assert cli("append", path, "--compact", "--lines").code == 0
    assert cli("compact", path).code == 0
    assert len(content(path)) == 1


def test_a_log_that_is_not_there_is_not_created(cli: Callable[..., Any], path: Path) -> None:
    for words in (["compact", path], ["explain", path, 0], ["pin", path]):
        assert cli(*words).code == 3
    assert not path.exists()


def test_damage_is_told_and_is_exit_code_1(cli: Callable[..., Any], log: Path) -> None:
    store = sorted(log.glob("*.store"))[0]
    data = bytearray(store.read_bytes())
    data[data.index(b"....") + 1] ^= 1
    store.write_bytes(data)
    ended = cli("compact", log, "--quiet")
    assert ended.code == 1
    assert f"skipped, damaged: {store}: offset 0 at position 64 is damaged" in ended.text


def test_a_rate_of_nothing_is_refused(cli: Callable[..., Any], log: Path) -> None:
    ended = cli("compact", log, "--rate", "0")
    assert ended.code == 2
    assert "greater than 0" in ended.err


# --- config ---------------------------------------------------------------------------------------------------------


def test_the_options_of_a_keyed_log_are_kept_with_it(cli: Callable[..., Any], path: Path) -> None:
    options = ["--compact", "--unkeyed", "keep", "--delete-retention", "2h", "--min-compaction-lag", "1m"]
    more = ["--max-compaction-lag", "1d", "--min-dirty-ratio", "0.25", "--dedupe-bytes", "1MiB"]
    assert cli("append", path, "v", *options, *more).code == 0
    with seglog.open(path, mode="r") as log:
        assert log.config.retention == seglog.Retention(
            compact=True,
            unkeyed="keep",
            delete_retention=7200,
            min_compaction_lag=60,
            max_compaction_lag=86400,
            min_dirty_ratio=0.25,
            dedupe_bytes=1024**2,
        )
    assert cli("append", path, "v", "--no-compact").code == 0
    with seglog.open(path, mode="r") as log:
        assert not log.config.retention.compact
        assert log.config.retention.min_dirty_ratio == 0.25


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--min-dirty-ratio", "half", "is not a number between 0 and 1"),
        ("--min-dirty-ratio", "2", "between 0 and 1"),
        ("--unkeyed", "x", "reject"),
    ],
)
def test_an_option_that_cannot_be_is_refused(
    cli: Callable[..., Any], path: Path, option: str, value: str, words: str
) -> None:
    ended = cli("append", path, "v", option, value)
    assert ended.code == 2
    assert words in ended.err
    assert not path.exists()


# --- explain --------------------------------------------------------------------------------------------------------


def test_explain_says_why_a_record_is_there(cli: Callable[..., Any], log: Path) -> None:
    shown = cli("explain", log, 0)
    assert shown.code == 0
    lines = shown.text.splitlines()
    assert lines[0].startswith("offset 0, key k0: superseded, by ")
    assert lines[0].endswith("(compaction is due)")
    assert lines[1].endswith("A compaction is due (dirty), which will remove it.")
    assert lines[2] == "  dirty segment 00000000000000000000-1.store"
    assert cli("explain", log, 1000).text.startswith("offset 1000: not yet (never written)\n")
    told = cli("explain", log, 0, "--json").json
    assert (told["offset"], told["key"], told["what"], told["because"]) == (0, "k0", "superseded", "compaction is due")
    assert told["segment"]["state"] == "dirty"


def test_explain_says_it_for_every_record_of_a_key(cli: Callable[..., Any], log: Path) -> None:
    shown = cli("explain", log, "--key", "k0").text
    heads = [line for line in shown.splitlines() if line.startswith("offset ")]
    assert [int(line.split(",")[0].removeprefix("offset ")) for line in heads] == [0, *range(9, RECORDS, 8)]
    assert heads[-1].endswith("latest (latest of its key)")
    assert shown.count("A compaction is due") < len(heads), "one story for all that have the same"
    told = cli("explain", log, "--key", "k0", "--json")
    assert len(told.lines) == len(heads)
    assert cli("explain", log, "--key", "nobody").text == "no record with key nobody is in the log\n"
    assert cli("explain", log, "--key", "nobody", "--json").out == b""


def test_a_key_that_is_no_text_is_shown_all_the_same(cli: Callable[..., Any], path: Path) -> None:
    with seglog.open(path) as log:
        log.append(b"v", key=b"\xff")
    assert "key /w== (base64)" in cli("explain", path, 0).text
    assert cli("explain", path, 0, "--json").json["key"] == {"base64": "/w=="}
    assert cli("explain", path, "--key", "\udcff").text.startswith("offset 0")


def test_explain_wants_either_an_offset_or_a_key(cli: Callable[..., Any], log: Path) -> None:
    assert cli("explain", log).code == 2
    assert cli("explain", log, 0, "--key", "k0").code == 2


# --- pin ------------------------------------------------------------------------------------------------------------


def test_pins_are_set_listed_and_dropped(cli: Callable[..., Any], log: Path) -> None:
    assert cli("pin", log).text == "no pins\n"
    assert cli("pin", log, "copy", 5).text == f"copy  5  {RECORDS - 5} behind\n".replace("  5  ", "   5  ")
    cli("pin", log, "a", RECORDS)
    assert cli("pin", log).text.splitlines() == [f"copy   5  {RECORDS - 5} behind", f"a     {RECORDS}  0 behind"]
    assert cli("pin", log, "--json").json == {"pins": {"copy": 5, "a": RECORDS}, "next_offset": RECORDS}
    assert cli("pin", log, "copy", "--drop").text == f"a  {RECORDS}  0 behind\n"
    with seglog.open(log, mode="r") as reader:
        assert reader.pins == {"a": RECORDS}


def test_pins_are_set_while_a_writer_has_the_log_open(cli: Callable[..., Any], log: Path) -> None:
    with seglog.open(log) as writer:
        assert cli("pin", log, "copy", 5).code == 0
        assert writer.pins == {"copy": 5}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["copy"], 2),
        (["copy", 5, "--drop"], 2),
        (["--drop"], 2),
        (["copy", "--drop"], 2),
        (["copy", 1000], 5),
        (["a/b", 5], 2),
    ],
)
def test_a_pin_that_cannot_be_is_refused(cli: Callable[..., Any], log: Path, words: list[object], code: int) -> None:
    ended = cli("pin", log, *words)
    assert (ended.code, ended.out) == (code, b"")
    assert cli("pin", log).text == "no pins\n"


# --- info -----------------------------------------------------------------------------------------------------------


def test_info_draws_the_garbage_estimated_or_counted(
    cli: Callable[..., Any], log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for option, cell in (("--segments", "~"), ("--garbage", "87.5%")):
        shown = cli("info", log, option).text
        drawn = shown.split("\n\n")[1].splitlines()
        assert max(map(len, drawn)) <= 80
        assert "garbage" in drawn[0]
        assert cell in drawn[1]
        assert "dirty" in drawn[1]
        assert "active" in drawn[-1]
        assert "░" in drawn[1]


def test_info_tells_where_a_keyed_log_stands(cli: Callable[..., Any], log: Path) -> None:
    assert "due       dirty; 100% of" in cli("info", log).text
    assert "pins" not in cli("info", log).text
    cli("pin", log, "copy", 5)
    assert "pins      copy 5" in cli("info", log).text
    told = cli("info", log, "--garbage", "--json").json
    assert (told["standing"]["due"], told["pins"]) == ("dirty", {"copy": 5})
    assert told["garbage"]["0"] == 7 / 8
    assert len(told["garbage"]) == len(told["segments"])


def test_info_of_a_log_that_is_not_compacted_by_key_has_none_of_that(cli: Callable[..., Any], path: Path) -> None:
    make(path, compact=False)
    shown = cli("info", path, "--garbage").text
    assert "garbage" not in shown
    assert "due" not in shown
    assert "sealed" in shown
    assert cli("info", path, "--json").json["standing"] is None
