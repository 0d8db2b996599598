"""Rows that wait to be written: whether the codec or the kernels encode them, the bytes and figures are the same."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from seglog.format.codec import encode_headers
from seglog.format.index import MarkBuilder
from seglog.segment import write_buffer
from seglog.segment.kernel_write_buffer import encode_by_kernels
from seglog.segment.stats import Place

if TYPE_CHECKING:
    from seglog.segment.stats import Block

MAYBE = st.none() | st.binary(max_size=50)
HEADERS = st.just(b"") | st.builds(lambda value: encode_headers((("name", value),)), MAYBE)
ROWS = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), MAYBE, MAYBE, HEADERS), min_size=1, max_size=600)
ALIKE = st.builds(
    lambda row, count: [row] * count, st.tuples(st.integers(0, 9), MAYBE, MAYBE, HEADERS), st.integers(1, 300)
)


def plain(encoded: tuple[bytes | memoryview, Block]) -> tuple[bytes, Block]:
    """Make bytes of what may be views."""
    data, block = encoded
    return bytes(data), block._replace(entries=bytes(block.entries))


@settings(max_examples=150)
@given(rows=ROWS | ALIKE, relative=st.integers(0, 2**31), position=st.integers(64, 2**31), newest=st.integers(-9, 9))
def test_the_codec_and_the_kernels_make_the_same_of_rows(
    rows: list[write_buffer.Row], relative: int, position: int, newest: int
) -> None:
    marks, place = MarkBuilder(64), Place(relative, position, 77)
    marks.extend(b"", ((position // 64 + 1) * 64, newest))
    columns = write_buffer.columns_of([*chain.from_iterable(rows)])
    assert plain(encode_by_kernels(columns, place, marks)) == plain(write_buffer.encode_by_codec(columns, place, marks))
    assert marks.marks == b"", "the marks are the caller's"
