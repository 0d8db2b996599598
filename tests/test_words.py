"""`make lint` counts the phrases of docs/words.md: a count may fall, not rise, and ordinary uses are not counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import words

PHRASES = words.phrases((words.ROOT / words.TABLE).read_text())
ODD = """
The writer is told so. The header tells its length. It says what failed. The part has told it.
Retention lets go of segments.
The entry stands at position 8, where it stood before. Two records stand there.
What comes behind the offset; the bytes that lie behind it; behind the last record; gaps behind its end.
At most so many requests, as many as it takes; ends after so many records.
Who comes too late gets 429. Return who asks.
The index is made anew and kept for ever.
The sum is held against the header, all files are gone over and taken stock of.
The roll is taken back, the batch taken out, the upload given up.
The offset is meant; it means to stop; a consumer wants to hear of deletes.
A sync is dear.
The length has a word of its own.
The coordinator hears of a member, the member is heard of.
Whoever reads, nobody waits, somebody writes, who wants it.
It does without a lock, a copy is spared, speed bought with memory.
Bytes on the medium.
Which room a change belongs in; by another door; the rules of the house.
A topic is made by hand.
The reason in words, in a sentence.
The way of a record; a request's way.
A share of the batch.
Lost in silence.
Rows are dealt out to partitions.
"""
ORDINARY = """
The letter k stands for key. Digits stand for numbers. So many that it fails.
Run it behind a proxy; a consumer is 3 records behind; the rules behind it.
The server runs as nobody; chown it to user nobody, or `nobody`. By no means to be deleted. What is meant by dense.
Tell whether the lock is held. The user says yes. It needs room for 8 bytes; make_room returns. Dear reader.
Stored in words of 32 bits. It is anewer version. The last record is long gone. It gives up after 3 retries.
A medium term plan. Let it go on. A name of its own.
"""


def named(text: str) -> list[str]:
    return [use.phrase.name for use in words.uses(text, Path("page.md"), PHRASES)]


@pytest.mark.parametrize(("line", "phrase"), list(zip(ODD.split("\n")[1:-1], PHRASES, strict=True)))
def test_each_phrase_of_the_table_is_found(line: str, phrase: words.Phrase) -> None:
    assert set(named(line)) == {phrase.name}


def test_ordinary_uses_of_the_same_words_are_not_counted() -> None:
    assert named(ORDINARY) == []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for directory in ("docs", "src", "tools"):
        (tmp_path / directory).mkdir()
    (tmp_path / words.TABLE).write_text((words.ROOT / words.TABLE).read_text())
    (tmp_path / "src" / "one.py").write_text('"""Bytes on the medium."""\n')
    (tmp_path / "README.md").write_text("An index made anew.\n")
    assert words.main([], tmp_path) == 0
    return tmp_path


def test_one_use_more_of_a_phrase_fails_and_is_shown_with_its_place_and_what_to_write(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "src" / "two.py").write_text('\n"""What is on the medium."""\n')
    assert words.main([], project) == 1
    shown = capsys.readouterr()
    assert "src/two.py:2: 'the medium': write 'the disk, the storage device': " in shown.out
    assert "'the medium' is used 2 times, 1 are recorded" in shown.err
    assert words.main(["--update"], project) == 1, "a count is never raised"


def test_a_count_that_has_fallen_is_recorded_and_cannot_rise_again(project: Path) -> None:
    (project / "README.md").write_text("An index that is rebuilt.\n")
    assert words.main([], project) == 0
    assert words.main(["--update"], project) == 0
    assert json.loads((project / words.RECORDED).read_text())["anew, for ever"] == 0
    (project / "README.md").write_text("An index made anew.\n")
    assert words.main([], project) == 1


def test_a_line_of_prose_wider_than_100_columns_fails_but_tables_and_code_may_be_wider(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = "word " * 21
    (project / "docs" / "page.md").write_text(f"# Page\n\n| {wide} |\n\n```\n{wide}\n```\n")
    assert words.main([], project) == 0
    with (project / "docs" / "page.md").open("a") as page:
        page.write(f"\n{wide}\n")
    assert words.main([], project) == 1
    assert "docs/page.md:9: wider than 100 columns" in capsys.readouterr().err
