"""The changes after the base of a MANIFEST: what they add up to, and what is left of them after damage."""

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
from seglog.format.manifest import Manifest, Retired, Role, SegmentEntry, Segments
from seglog.format.manifest_changes import (
    LEAST_BYTES,
    Change,
    ManifestFile,
    decode_file,
    doubled,
    encode_change,
    follow,
    is_rebuildable,
    latest_state,
)


def sealed(number: int, file: int | None = None) -> SegmentEntry:
    return SegmentEntry(
        base_offset=5 * number,
        file=number + 1 if file is None else file,
        salt=number,
        created=11,
        next_offset=5 * number + 5,
        bytes=400,
        records=5,
        tombstones=0,
        sealed_at=20,
        digest=0xDEF,
    )


def active(number: int) -> SegmentEntry:
    return SegmentEntry(base_offset=5 * number, file=number + 1, salt=number, created=11)


BASE = Manifest(
    log_id=0x77,
    version=3,
    epoch=1,
    next_file=4,
    start=0,
    config=LogConfig(segment_bytes=512, retention=Retention(bytes=10)),
    segments=Segments.of([sealed(0), sealed(1), active(2)]),
)


def rolled(manifest: Manifest) -> Manifest:
    number = manifest.active.base_offset // 5
    segments = manifest.segments[:-1].followed_by([sealed(number), active(number + 1)])
    return replace(manifest, version=manifest.version + 1, next_file=manifest.next_file + 1, segments=segments)


def published(manifest: Manifest) -> Manifest:
    number, later = manifest.active.base_offset // 5, rolled(rolled(manifest))
    return replace(later, version=manifest.version + 1, published={"query": number})


def expired(manifest: Manifest) -> Manifest:
    gone, left = manifest.segments[:1], manifest.segments[1:]
    version = manifest.version + 1
    retired = Retired(version=version, retired_at=30, names=tuple(entry.name() for entry in gone))
    return replace(manifest, version=version, segments=left, start=left[0].base_offset, retired=(retired,))


def compacted(manifest: Manifest) -> Manifest:
    one = replace(manifest.segments[0], file=manifest.next_file, dense=False, cleaned_to=5)
    segments = manifest.segments.spliced(0, 1, [one])
    return replace(manifest, version=manifest.version + 1, next_file=manifest.next_file + 1, segments=segments)


KINDS = {"roll": rolled, "publish": published, "expire": expired, "compact": compacted}


def written(*kinds: str) -> tuple[bytes, list[Manifest]]:
    """Return a MANIFEST of the base and these changes, and every state of it."""
    data, states = BASE.encode(open_ended=True), [BASE]
    file = ManifestFile.of_base(BASE, data)
    for kind in kinds:
        later = KINDS[kind](states[-1])
        assert is_rebuildable(states[-1], later)
        line = encode_change(file, Change.between(file.manifest, later))
        assert file.takes(line)
        file, data = file.with_change(later, line), data + doubled(line)
        states.append(later)
    return data, states


def read(data: bytes) -> ManifestFile:
    return decode_file(data, "MANIFEST")


ALL = ("roll", "publish", "expire", "compact")
DATA, STATES = written(*ALL)
ENDS = [len(written(*ALL[:number])[0]) for number in range(len(ALL) + 1)]


# --- golden -------------------------------------------------------------------------------------------------------


def test_a_change_is_one_line_that_is_there_twice() -> None:
    data, _ = written("roll")
    base, lines = BASE.encode(open_ended=True), data.splitlines(keepends=True)[-3:]
    assert data == base + b"".join(lines)
    assert lines[0] == lines[2]
    assert lines[1] == b"\n"
    values = json.loads(lines[0])
    assert values.pop("check") == f"{xxh64_intdigest(lines[0][:-29]):016x}"
    state = values.pop("state")
    assert state["version"] == 4
    assert state["segments"] == 4
    assert state["config"] == BASE.config.to_json()
    assert values == {
        "change": {"base": 3, "after": base[-19:-3].decode(), "at": 2, "gone": 1},
        "entries": [json.loads(sealed(2).line), json.loads(active(3).line)],
    }


def test_a_base_that_changes_may_follow_has_a_format_of_its_own() -> None:
    assert json.loads(BASE.encode(open_ended=True).splitlines()[0])["format"] == 3
    assert json.loads(BASE.encode().splitlines()[0])["format"] == 1
    assert json.loads(replace(BASE, role=Role(term=1)).encode().splitlines()[0])["format"] == 2


# --- round trip ---------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["roll", "roll", "publish", "compact", "expire"]), max_size=8))
def test_changes_of_any_order_add_up_to_the_last_state(kinds: list[str]) -> None:
    count, chosen = len(BASE.segments), []
    for kind in kinds:
        if kind != "expire" or count > 1:
            chosen.append(kind)
            count += {"roll": 1, "publish": 2, "expire": -1, "compact": 0}[kind]
    data, states = written(*chosen)
    file = read(data)
    assert file.manifest == states[-1]
    assert file.sound
    assert (file.changes, file.end, file.base_bytes) == (len(chosen), len(data), len(BASE.encode()))


@pytest.mark.parametrize("cut", range(len(ALL) + 1))
def test_what_is_read_from_an_earlier_end_on_is_what_the_whole_file_says(cut: int) -> None:
    known = read(DATA[: ENDS[cut]])
    assert follow(known, DATA[known.end :], "MANIFEST") == read(DATA)


def test_a_line_that_is_not_whole_yet_is_read_when_it_is() -> None:
    for length in (*range(ENDS[-2], len(DATA), 11), len(DATA)):
        early = read(DATA[:length])
        assert early.manifest in STATES[-2:]
        assert follow(early, DATA[early.end :], "MANIFEST") == read(DATA)


def test_the_changes_that_follow_a_base_are_bounded_by_its_size() -> None:
    file = ManifestFile.of_base(BASE, BASE.encode(open_ended=True))
    line, count = b"x" * 900, 0
    while file.takes(line):
        file, count = file.with_change(BASE, line), count + 1
    assert count == (LEAST_BYTES + file.base_bytes // 8) // 1801


def test_only_segments_that_come_and_go_are_changes_that_may_follow() -> None:
    other = [
        {"epoch": 2},
        {"config": LogConfig(segment_bytes=999)},
        {"rebuilt": True},
        {"home": ("topic", 1)},
        {"backup": True},
        {"role": Role(term=1)},
        {"start": 3},
    ]
    assert not any(is_rebuildable(BASE, replace(rolled(BASE), **one)) for one in other)  # type: ignore[arg-type] # any


# --- damage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step", [37, pytest.param(3, marks=pytest.mark.proof), pytest.param(1, marks=pytest.mark.deep)]
)  # 3: two or three bits of every byte
def test_no_flipped_bit_loses_a_change_without_a_word(step: int) -> None:
    """In the base it is damage; in a change the other copy is read, and the file is not sound."""
    for bit in range(0, len(DATA) * 8, step):
        damaged = bytearray(DATA)
        damaged[bit // 8] ^= 1 << bit % 8
        if bit // 8 < ENDS[0]:
            with pytest.raises(CorruptLog):
                read(bytes(damaged))
        else:
            file = read(bytes(damaged))
            assert file.manifest == STATES[-1]
            assert not file.sound


def test_a_file_that_was_cut_holds_a_state_that_it_had() -> None:
    for length in sorted({*range(0, len(DATA), 7), *ENDS[:-1], *(end - 1 for end in ENDS)}):
        if length < ENDS[0]:
            with pytest.raises(CorruptLog):
                read(DATA[:length])
            continue
        file, whole = read(DATA[:length]), sum(end <= length for end in ENDS) - 1
        assert file.manifest in STATES[whole : whole + 2]
        assert file.sound == (length in ENDS)


@pytest.mark.parametrize("number", range(len(ALL)))
def test_a_change_of_which_both_copies_are_lost_is_a_tear_at_the_end_and_damage_elsewhere(number: int) -> None:
    start, stop = ENDS[number], ENDS[number + 1]
    half = (stop - start) // 2
    for zeros in (slice(start, stop), slice(start + 5, start + half + 5), slice(stop - half - 9, stop - 3)):
        damaged = bytearray(DATA)
        damaged[zeros] = bytes(len(damaged[zeros]))
        if number == len(ALL) - 1:
            assert read(bytes(damaged)).manifest == STATES[-2]
            assert not read(bytes(damaged)).sound
        else:
            with pytest.raises(CorruptLog):
                read(bytes(damaged))


@pytest.mark.parametrize("rest", [b"\n", b"\0" * 900, b"x", b'{"change":', BASE.encode(), DATA[ENDS[0] : ENDS[1]]])
def test_whatever_else_follows_changes_nothing_and_is_noticed(rest: bytes) -> None:
    file = read(DATA + rest)
    assert file.manifest == STATES[-1]
    assert not file.sound
    assert not file.takes(b"")


CHANGE = Change.between(BASE, rolled(BASE))


def test_changes_of_another_base_or_another_log_are_none() -> None:
    base = replace(BASE, version=2)
    other = ManifestFile.of_base(base, base.encode(open_ended=True))
    foreign = replace(BASE, log_id=0x78)
    stranger = ManifestFile.of_base(foreign, foreign.encode(open_ended=True))
    data = BASE.encode(open_ended=True)
    for line in (encode_change(other, CHANGE), encode_change(stranger, Change.between(foreign, rolled(foreign)))):
        assert read(data + doubled(line)).manifest == BASE


def signed(values: dict[str, Any]) -> bytes:
    body = json.dumps(values, separators=(",", ":")).encode()[:-1]
    return body + b',"check":"%016x"}\n' % xxh64_intdigest(body)


def test_a_change_that_does_not_follow_the_one_before_is_damage() -> None:
    values = json.loads(DATA[ENDS[0] :].splitlines()[0])
    del values["check"]
    for change in ({"after": "0" * 16}, {"at": 4}, {"at": -1}, {"gone": 9}, {"gone": -1}):
        line = signed({**values, "change": {**values["change"], **change}})
        with pytest.raises(CorruptLog):
            read(DATA[: ENDS[0]] + doubled(line))


def test_a_change_that_this_version_does_not_know_is_a_newer_versions() -> None:
    values = json.loads(DATA[ENDS[0] :].splitlines()[0])
    del values["check"]
    strange: list[dict[str, Any]] = [
        {"entries": [{**values["entries"][0], "colour": 7}]},
        {"state": {**values["state"], "config": {**values["state"]["config"], "encryption": "aes"}}},
        {"state": {**values["state"], "retired": None}},
    ]
    for change in strange:
        with pytest.raises((FormatVersionError, CorruptLog)):
            read(DATA[: ENDS[0]] + doubled(signed({**values, **change})))


def test_the_last_header_is_found_without_the_base() -> None:
    damaged = b"x" + DATA[1:]
    with pytest.raises(CorruptLog):
        read(damaged)
    assert latest_state(damaged) == {**STATES[-1].header()} | json.loads(json.dumps(STATES[-1].header()))
    assert latest_state(BASE.encode()) is None
    assert latest_state(b"") is None


def test_a_manifest_that_no_change_may_follow_is_damaged_if_one_does() -> None:
    with pytest.raises(CorruptLog):
        read(BASE.encode() + DATA[ENDS[0] :])
