"""Text from outside as people see it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.visible import visible, visible_name

NAMES = {
    "orders": "orders",
    "größe, 注文": "größe, 注文",
    "\u202enimda": r"\u202enimda",
    "a\u061cb\u200bc\u2066d\u00ade\u2800f": r"a\u061cb\u200bc\u2066d\xade\u2800f",
    "one\ntwo\x1b[2J": r"one\ntwo\x1b[2J",
    "orders ": r"orders\x20",
    "  orders": r"\x20\x20orders",
    " ": r"\x20",
    "a\u00a0b\u3000c": r"a\xa0b\u3000c",
    "\U000e0061x": r"\U000e0061x",
    "\ud800": r"\ud800",
    "оrders": "оrders (U+043E)",
    "ＡB": "ＡB (U+FF21)",
    "αβγδ": "αβγδ (U+03B1, U+03B2, U+03B3, ...)",
    "": "",
}


@pytest.mark.parametrize(("name", "shown"), NAMES.items())
def test_a_name_is_shown_so_that_it_hides_turns_and_imitates_nothing(name: str, shown: str) -> None:
    assert visible_name(name) == shown


@given(st.text())
def test_whatever_is_shown_can_be_printed(text: str) -> None:
    assert visible(text).isprintable()
    assert visible_name(text).isprintable()


def test_the_lines_of_a_text_stay_where_they_are_wanted() -> None:
    assert visible("one\n\ttwo\r\u202e", "\n\t") == "one\n\ttwo\\r\\u202e"
