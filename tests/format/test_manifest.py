"""The manifest: what a person reads in it, what a machine reads back, and what both refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from seglog.config import LogConfig, Retention
from seglog.errors import CorruptLog, FormatVersionError
from seglog.format.manifest import Manifest, Retired, SegmentEntry, decode
from seglog.format.segment_list import BLOCK_SEGMENTS
from tests.format.entries import COUNT, ENTRIES, TIME, U64, with_check

SEALED = SegmentEntry(
    base_offset=0,
    file=1,
    salt=0xABC,
    created=11,
    next_offset=5,
    bytes=400,
    records=5,
    tombstones=1,
    min_timestamp=-3,
    max_timestamp=9,
    sealed_at=20,
    digest=0xDEF,
)
ACTIVE = SegmentEntry(base_offset=5, file=2, salt=2**64 - 1, created=20, dense=False)
MANIFEST = Manifest(
    log_id=0x77,
    version=3,
    epoch=1,
    next_file=4,
    start=0,
    config=LogConfig(segment_bytes=512, retention=Retention(bytes=10)),
    segments=(SEALED, ACTIVE),
    retired=(Retired(version=2, retired_at=15, names=("00000000000000000000-3.store",)),),
    published={"query": 8},
)

MANIFESTS = st.builds(
    Manifest,
    log_id=U64,
    version=COUNT,
    epoch=COUNT,
    next_file=COUNT,
    start=COUNT,
    config=st.just(LogConfig()) | st.just(LogConfig(segment_bytes=512, segment_age=1.5, retention=Retention(age=0))),
    segments=st.lists(ENTRIES, min_size=1, max_size=4).map(tuple),
    retired=st.lists(
        st.builds(Retired, version=COUNT, retired_at=TIME, names=st.lists(st.text(max_size=5), max_size=3).map(tuple)),
        max_size=2,
    ).map(tuple),
    published=st.dictionaries(st.text(max_size=5), COUNT, max_size=2),
    rebuilt=st.booleans(),
)


def signed(*lines: dict[str, Any]) -> bytes:
    return with_check(b"".join(json.dumps(line).encode() + b"\n" for line in lines))


def lines_of(manifest: Manifest) -> list[dict[str, Any]]:
    return [json.loads(line) for line in manifest.encode().splitlines()]


# --- golden -------------------------------------------------------------------------------------------------------


def test_the_first_line_tells_of_the_log() -> None:
    header = lines_of(MANIFEST)[0]
    assert header.pop("config") == MANIFEST.config.to_json()
    assert header == {
        "format": 1,
        "version": 3,
        "log_id": "0000000000000077",
        "epoch": 1,
        "next_file": 4,
        "start": 0,
        "retired": [{"version": 2, "retired_at": 15, "names": ["00000000000000000000-3.store"]}],
        "published": {"query": 8},
        "rebuilt": False,
        "cuts_from": 0,
        "cuts": [],
        "boot": "",
        "segments": 2,
    }


def test_each_segment_is_one_line_and_the_active_one_the_last() -> None:
    assert lines_of(MANIFEST)[1:-1] == [
        {
            "base_offset": 0,
            "file": 1,
            "salt": "0000000000000abc",
            "created": 11,
            "dense": True,
            "next_offset": 5,
            "bytes": 400,
            "records": 5,
            "tombstones": 1,
            "min_timestamp": -3,
            "max_timestamp": 9,
            "sealed_at": 20,
            "digest": "0000000000000def",
        },
        {"base_offset": 5, "file": 2, "salt": "ffffffffffffffff", "created": 20, "dense": False},
    ]


def test_the_last_line_is_the_check_of_all_before_it() -> None:
    body, check = MANIFEST.encode()[:-29], MANIFEST.encode()[-29:]
    assert check == b'{"check":"%016x"}\n' % xxh64_intdigest(body)


def test_a_segment_names_its_files() -> None:
    assert SEALED.name() == "00000000000000000000-1.store"
    assert ACTIVE.name("offsets") == "00000000000000000005-2.offsets"
    assert (SEALED.sealed, ACTIVE.sealed) == (True, False)


# --- round trip ---------------------------------------------------------------------------------------------------


@given(MANIFESTS)
def test_what_was_encoded_is_decoded(manifest: Manifest) -> None:
    assert decode(manifest.encode(), "MANIFEST") == manifest


def many(count: int, **changes: Any) -> Manifest:
    """A manifest of so many sealed segments and the active one."""
    sealed = [
        replace(SEALED, base_offset=5 * number, next_offset=5 * number + 5, file=number) for number in range(count)
    ]
    return replace(MANIFEST, segments=(*sealed, replace(ACTIVE, base_offset=5 * count, file=count)), **changes)


@pytest.mark.parametrize(
    "count", [0, 1, BLOCK_SEGMENTS - 1, BLOCK_SEGMENTS, 2 * BLOCK_SEGMENTS, 2 * BLOCK_SEGMENTS + 3]
)
def test_any_number_of_segments_is_decoded_as_it_was_line_by_line(count: int) -> None:
    manifest = many(count)
    lines = [entry.line for entry in manifest.segments]
    assert manifest.encode().splitlines(keepends=True)[1:-1] == lines
    decoded = decode(manifest.encode(), "MANIFEST")
    assert decoded == manifest
    assert [entry.line for entry in decoded.segments] == lines


@given(MANIFESTS, MANIFESTS)
def test_what_is_like_an_earlier_state_is_decoded_as_it_would_be_without(earlier: Manifest, later: Manifest) -> None:
    both = replace(later, segments=(*earlier.segments, *later.segments))
    decoded = decode(both.encode(), "MANIFEST", earlier)
    assert decoded == decode(both.encode(), "MANIFEST") == both
    known = {id(entry) for entry in earlier.segments}
    assert all(id(entry) in known for entry in decoded.segments[: len(earlier.segments)])


@given(MANIFESTS, st.integers(0, 5), st.integers(0, 5), st.integers(0, 3))
def test_an_earlier_state_is_of_use_after_expiries_cuts_and_compactions(
    earlier: Manifest, expired: int, cut: int, compacted: int
) -> None:
    left = earlier.segments[expired : max(len(earlier.segments) - cut, expired + 1)]
    rewritten = [replace(entry, file=entry.file + 2**40) for entry in left[:compacted]]
    joining = replace(SEALED, base_offset=2**50, file=2**50)
    later = replace(earlier, segments=(*rewritten, *left[compacted:], joining))
    assert decode(later.encode(), "MANIFEST", earlier) == decode(later.encode(), "MANIFEST") == later


# --- refusals -----------------------------------------------------------------------------------------------------


def test_every_flipped_bit_is_refused_as_damage_one_of_the_version_too() -> None:
    data = MANIFEST.encode()
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptLog):
            decode(bytes(damaged), "MANIFEST")


def test_every_cut_is_refused() -> None:
    data = MANIFEST.encode()
    for length in range(len(data)):
        with pytest.raises(CorruptLog, match="MANIFEST"):
            decode(data[:length], "MANIFEST")


@pytest.mark.parametrize("more", [b"\n", b"\0", b"x\n", MANIFEST.encode()])
def test_whatever_follows_the_check_is_refused(more: bytes) -> None:
    with pytest.raises(CorruptLog):
        decode(MANIFEST.encode() + more, "MANIFEST")


@pytest.mark.parametrize("data", [b"", b"\n", bytes(500), b"{}\n", b'[1]\n{"check":"00"}\n', b"\xff" * 60 + b"\n"])
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptLog):
        decode(data, "MANIFEST")


def test_a_newer_format_is_told_from_damage_whatever_else_it_holds() -> None:
    for data in (signed({"format": 4}), b'{"format": 7, "what": "no check that we know"}\n'):
        with pytest.raises(FormatVersionError, match=r"MANIFEST.*version.*nothing was changed"):
            decode(data, "MANIFEST")


def changed(line: int, **values: object) -> bytes:
    lines = lines_of(MANIFEST)[:-1]
    lines[line].update(values)
    return signed(*lines)


def test_fields_that_this_version_does_not_know_are_a_newer_versions_and_no_damage() -> None:
    """The checksum matches, so nothing is damaged: rebuilding the manifest would discard what it says."""
    config = {**MANIFEST.config.to_json(), "encryption": "aes"}
    codec = {**MANIFEST.config.to_json(), "compression": "brotli"}
    for data in (changed(0, config=config), changed(0, config=codec), changed(1, horizon=7), changed(1, codec="x")):
        with pytest.raises(FormatVersionError, match="MANIFEST"):
            decode(data, "MANIFEST")


@pytest.mark.parametrize(
    "data",
    [
        changed(0, version="3"),
        changed(0, next_file=True),
        changed(0, config=[]),
        changed(0, published={"query": None}),
        changed(0, retired=[{"version": 2, "retired_at": 15, "names": [1]}]),
        changed(1, records="many"),
        changed(1, horizons=[[1, "x"]]),
        changed(1, decay="half"),
        changed(1, salt=None),
        changed(1, dense=1),
        changed(1, codec=1),
        changed(1, stored="5"),
        signed(*lines_of(MANIFEST)[:1]),  # no segment at all
        signed({"format": 1}, []),  # type: ignore[arg-type] # no object
    ],
)
def test_values_of_another_kind_are_refused_here_and_break_nobody_later(data: bytes) -> None:
    with pytest.raises(FormatVersionError, match="MANIFEST"):
        decode(data, "MANIFEST")


@pytest.mark.parametrize("field", ["base_offset", "file", "salt", "created"])
def test_a_segment_that_lacks_what_every_segment_has_is_refused(field: str) -> None:
    lines = lines_of(MANIFEST)[:-1]
    del lines[1][field]
    with pytest.raises(FormatVersionError, match="MANIFEST"):
        decode(signed(*lines), "MANIFEST")


@pytest.mark.parametrize("lines", [[b"{},{}"], [b"", b"{}"], [b"[{}", b"{}]"]])
def test_lines_that_are_not_one_object_each_are_refused(lines: list[bytes]) -> None:
    one = MANIFEST.encode().splitlines()
    body = b"".join(line.replace(b"{}", one[1]) + b"\n" for line in [one[0], *lines])
    with pytest.raises(FormatVersionError, match="MANIFEST"):
        decode(with_check(body), "MANIFEST")


@pytest.mark.parametrize("deep", [b"[" * 100_000, b'{"format":' * 100_000])
def test_damage_that_looks_like_json_without_end_is_damage(deep: bytes) -> None:
    with pytest.raises(CorruptLog, match="MANIFEST"):
        decode(deep + b"\n" + MANIFEST.encode(), "MANIFEST")
