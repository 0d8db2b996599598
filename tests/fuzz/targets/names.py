"""Names: of a log's files, of topics and groups, of pins and batches. What is read as one is written the same."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from seglog.errors import SeglogError
from seglog.format import filename
from seglog.format.index import encode_dense_header
from seglog.log import pins, staging
from seglog.topic.layout import names

if TYPE_CHECKING:
    from collections.abc import Iterator


def seeds() -> Iterator[bytes]:
    yield b""
    for base, number, kind in ((0, 1, "store"), (2**63 - 1, 12, "index"), (7, 3, "times"), (7, 3, "offsets")):
        yield filename.segment_file(base, number, kind).encode()
    store = filename.segment_file(0, 1, "store")
    yield filename.torn_file(store, 64).encode()
    yield filename.torn_file(store, 64, 2).encode()
    yield store.replace("0", "٠").encode()
    yield store.replace("-1", "-01").encode()
    yield b"99999999999999999999-1.store"
    yield b"staging"
    yield b"orders.v1"
    yield b"a/b"


def target(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    parsed = filename.parse_segment_file(text)
    if parsed is not None:
        assert filename.segment_file(*parsed) == text
        assert filename.belongs_to_log(text)
        encode_dense_header(parsed.base_offset, 0, 0)  # an offset that every other file can hold
    filename.belongs_to_log(text)
    with suppress(SeglogError):
        assert names.checked_name(text, "topic") == text
        assert "/" not in text and text not in (".", "..") and text.isascii()
    with suppress(SeglogError):
        assert pins.checked_pin(text) == text
        assert "/" not in text and not text.startswith(".") and len(text.encode()) <= pins.MOST_NAME_BYTES
    with suppress(SeglogError):
        staging.checked_name(text, "batch")
        assert "/" not in staging.stage_directory(text, 5).split("/", 1)[1].replace("/5-", "", 1)
