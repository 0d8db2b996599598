"""File names are made and read in one place; a directory's other files are never taken for ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.format import filename


def test_names_are_those_of_the_document() -> None:
    assert filename.segment_file(184213, 2, "store") == "00000000000000184213-2.store"
    assert filename.torn_file("00000000000000184213-2.store", 640) == "00000000000000184213-2.store.640.torn"
    assert filename.lease_file("7-ab") == "readers/7-ab.lease"


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63), st.sampled_from(filename.KINDS))
def test_a_segment_files_name_is_read_back(base: int, number: int, kind: str) -> None:
    assert filename.parse_segment_file(filename.segment_file(base, number, kind)) == (base, number, kind)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=2, max_size=2))
def test_names_sort_as_offsets_do(bases: list[int]) -> None:
    names = [filename.segment_file(base, 1, "store") for base in bases]
    assert (names[0] < names[1]) == (bases[0] < bases[1])


NAMES = st.builds(
    filename.segment_file, st.integers(0, 2**63 - 1), st.integers(0, 2000), st.sampled_from(filename.KINDS)
)
OTHERS = st.sampled_from(["", "MANIFEST", "MANIFEST.prev", "tmp", "x" * 30, "00000000000000000000-07.store"])


@given(st.lists(NAMES | OTHERS), st.sets(st.integers(0, 2000)))
def test_files_with_none_of_some_numbers_are_found(names: list[str], numbers: set[int]) -> None:
    """Other names may be among them."""
    parsed = {name: file for name in names if (file := filename.parse_segment_file(name)) is not None}
    without = [name for name in filename.not_numbered(names, numbers) if name in parsed]
    assert without == [name for name in names if name in parsed and parsed[name].number not in numbers]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "MANIFEST",
        "1-1.store",
        "00000000000000000000.store",
        "00000000000000000000-1.store.bak",
        "00000000000000000000-1.STORE",
        "00000000000000000000--1.store",
        "00000000000000000000-1.store\n",
        "00000000000000000000-01.store",
        "0000000000000000000٣-1.store",
        "09223372036854775808-1.store",
    ],
)
def test_other_names_are_no_segments(name: str) -> None:
    assert filename.parse_segment_file(name) is None


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("MANIFEST", True),
        ("MANIFEST.prev", True),
        ("LOCK", True),
        ("tmp", True),
        ("00000000000000000000-1.times", True),
        ("00000000000000000000-1.blocks", True),
        ("00000000000000000000-1.store.64.torn", True),
        ("00000000000000000000-1.store.64-1.torn", True),
        ("notes.txt", False),
        ("MANIFEST.old", False),
        ("00000000000000000000-1.store.torn", False),
        ("my.store", False),
    ],
)
def test_a_log_knows_its_own_files(name: str, *, ours: bool) -> None:
    assert filename.belongs_to_log(name) is ours
