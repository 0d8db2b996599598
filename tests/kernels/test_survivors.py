"""Keys read and survivors copied, against a plain Python reading of docs/format.md."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.format.codec import NATIVE, encode_headers
from seglog.format.index import MarkBuilder
from seglog.kernels.fingerprint import fingerprint
from seglog.kernels.keys import KEYED, TOMBSTONE, UNKEYED, read_keys
from seglog.kernels.layout import BEYOND, CHECKSUM, METADATA, OFFSET, OK, SHORT, MarksState, Summary
from seglog.kernels.survivors import MAX_RELATIVE, Copied, Target, copy_survivors, place_survivors
from seglog.kernels.validate import Cursor

pytestmark = pytest.mark.no_cover  # as the kernels

START, SALT, NEW_SALT, INTERVAL = 64, 0xFEDCBA9876543210, 0x0123456789ABCDEF, 64
SEED = (np.uint64(3), np.uint64(2**63 + 1))
HEADERS = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 3),  # offsets left out before it
        st.integers(-9, 9),
        st.none() | st.binary(max_size=30),
        st.none() | st.binary(max_size=90),
        HEADERS,
    ),
    max_size=40,
)


def plain_record(relative, row, salt):
    _, timestamp, key, value, headers = row
    parts, checksum, length = NATIVE.encode(relative, timestamp, key, value, encode_headers(headers), salt)
    return b"".join(parts), checksum, length


def offsets_of(rows, first=0):
    offsets, offset = [], first
    for row in rows:
        offsets.append(offset + row[0])
        offset = offsets[-1] + 1
    return offsets


def as_window(rows, offsets):
    data = b"".join(plain_record(at, row, SALT)[0] for at, row in zip(offsets, rows, strict=True))
    array = np.frombuffer(data + b"\0", np.uint8)[: len(data)]
    array.flags.writeable = False
    return array


def keys_of(window, *, end=None, dense=False, expected=0, room=50):
    fingerprints, at, kinds = np.empty((room, 2), np.uint64), np.empty(room, np.int64), np.empty(room, np.uint8)
    cursor = Cursor(START, START + window.size if end is None else end, expected, dense, np.uint64(SALT))
    rows, position, expected, reason = read_keys(window, START, cursor, *SEED, fingerprints, at, kinds)
    return fingerprints[:rows].tolist(), at[:rows].tolist(), kinds[:rows].tolist(), position, expected, reason


@given(ROWS)
def test_keys_offsets_and_kinds_of_any_records(rows):
    offsets = offsets_of(rows)
    window = as_window(rows, offsets)
    found, at, kinds, position, expected, reason = keys_of(window)
    assert (at, position, expected, reason) == (offsets, START + window.size, offsets[-1] + 1 if rows else 0, OK)
    for words, kind, (_, _, key, value, _) in zip(found, kinds, rows, strict=True):
        assert kind == (UNKEYED if key is None else TOMBSTONE if value is None else KEYED)
        array = np.frombuffer((key or b"") + b"\0", np.uint8)[: len(key or b"")]
        assert words == [int(word) for word in fingerprint(array, *SEED)]


def test_reading_keys_stops_where_the_window_ends_or_no_record_can_stand():
    rows = [(0, 1, b"key", b"value", ())] * 3
    window = as_window(rows, [0, 1, 2])
    length = window.size // 3
    assert keys_of(window, end=START + 2 * length + 31)[3:] == (START + 2 * length, 2, SHORT)
    assert keys_of(window, end=START + 3 * length - 1)[3:] == (START + 2 * length, 2, BEYOND)
    assert keys_of(window, room=2)[3:] == (START + 2 * length, 2, OK)
    assert keys_of(as_window(rows, [0, 2, 3]), dense=True)[4:] == (1, OFFSET)
    assert keys_of(as_window(rows, [5, 5, 6]))[4:] == (6, OFFSET)
    for at, value in ((8, 19), (20, 200)):  # metadata_len, key_len
        broken = np.array(window)
        broken[length + at] = value
        broken.flags.writeable = False
        assert keys_of(broken)[4:] == (1, METADATA)


def target_of(*, shift=0, records=0, room=2**32):
    return Target(shift, np.uint64(NEW_SALT), records, room)


def copied(window, rows, *, dead, target):
    bits = np.packbits(np.array(dead, np.uint8), bitorder="little") if any(dead) else np.empty(0, np.uint8)
    out = np.full(window.size, 0xAA, np.uint8)
    entries, newest = np.empty((len(rows) + 1, 2), np.uint64), np.empty(len(rows) + 1, np.int64)
    cursor = Cursor(START, START + window.size, 0, False, np.uint64(SALT))
    found = Copied(*copy_survivors(window, START, cursor, bits, 0, target, out, entries, newest))
    found = found._replace(summary=Summary(*found.summary))
    return found, out[: found.length], entries[: found.rows], newest[: found.rows]


@given(ROWS, st.data())
def test_survivors_are_what_encoding_them_anew_would_give(rows, data):
    offsets = offsets_of(rows)
    window = as_window(rows, offsets)
    dead = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    shift = data.draw(st.sampled_from([0, 1000, MAX_RELATIVE - 200]))
    position, earlier = data.draw(st.integers(START, 3 * START)), data.draw(st.integers(-9, 9))
    found, out, entries, newest = copied(window, rows, dead=dead, target=target_of(shift=shift))
    marks, state = np.empty((len(rows), 2), np.int64), MarksState(INTERVAL, 2 * START, earlier)
    marked, next_position = place_survivors(position, out, entries, newest, state, marks)
    expected, places, builder = b"", b"", MarkBuilder(INTERVAL)
    builder.extend(b"", (2 * START, earlier))
    for row, offset, gone in zip(rows, offsets, dead, strict=True):
        if not gone:
            record, checksum, length = plain_record(offset + shift, row, NEW_SALT)
            place = position + len(expected)
            builder.add(row[1], offset + shift, place)
            places += checksum.to_bytes(8, "little") + length.to_bytes(4, "little") + place.to_bytes(4, "little")
            expected += record
    alive = [row for row, gone in zip(rows, dead, strict=True) if not gone]
    assert (out.tobytes(), entries.tobytes()) == (expected, places)
    assert (marks[:marked].tobytes(), next_position) == (bytes(builder.marks), builder.next_position)
    assert (found.rows, found.position, found.ordinal) == (len(alive), START + window.size, len(rows))
    assert (found.reason, found.blocked) == (OK, -1)
    assert found.summary.tombstones == sum(row[3] is None for row in alive)
    if alive:
        assert found.summary[1:] == (min(row[1] for row in alive), max(row[1] for row in alive))


def test_a_full_store_blocks_at_the_first_record_that_needs_another():
    rows = [(0, 1, b"k", b"v" * 10, ())] * 6
    window, length = as_window(rows, list(range(6))), 43
    dead = [False, True, False, False, True, False]
    found, out, _, _ = copied(window, rows, dead=dead, target=target_of(room=3 * length))
    assert (found.rows, found.blocked, found.ordinal, len(out)) == (3, 5, 5, 3 * length)
    found, *_ = copied(window, rows, dead=dead, target=target_of(room=5))
    assert (found.rows, found.blocked) == (1, 2)  # the first record of a store may pass its limit
    found, *_ = copied(window, rows, dead=dead, target=target_of(records=1, room=5))
    assert (found.rows, found.blocked, found.position) == (0, 0, START)
    found, *_ = copied(window, rows, dead=dead, target=target_of(shift=MAX_RELATIVE - 2))
    assert (found.rows, found.blocked) == (2, 3)  # the offset would need 33 bits


@pytest.mark.parametrize("at", [0, 9, 17, 33, 40])
def test_a_damaged_record_is_found_though_it_is_dead(at):
    rows = [(0, 1, b"key", b"value", ())] * 4
    window = np.array(as_window(rows, [0, 1, 2, 3]))
    window[2 * 40 + at - (at == 40)] ^= 1
    window.flags.writeable = False
    for dead in ([False] * 4, [False, False, True, False]):
        found, *_ = copied(window, rows, dead=dead, target=target_of())
        assert (found.rows, found.position, found.reason != OK) == (2, START + 80, True)
        assert at in (9,) or found.reason == CHECKSUM
