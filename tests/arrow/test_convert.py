"""The Arrow edge: what a batch may hold, what is refused and how, and that what went in comes out."""

import decimal
import mmap

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

import seglog
from seglog.arrow.convert import ArrowBatch, MarksState, decode_batches, partitions_of, record_schema, scan_store
from seglog.errors import CorruptRecord, InvalidArgument, InvalidType
from seglog.format.codec import NATIVE, seal_head

SALT = 99
START = 64
WORDS = [b"", None, b"short", b"twelve bytes", b"thirteen byte", b"x" * 300, None, b"last"]
PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])


def store_of(data, *, now=17) -> bytes:
    batch = ArrowBatch.prepare(data, now=now)
    out = np.zeros(START + batch.bytes, np.uint8)
    state = MarksState.start(4096)
    batch.encode(0, batch.rows, out=out[START:], relative=0, position=START, salt=SALT, marks_state=state)
    return out.tobytes()


def batches_of(store, **changed):
    span = {"path": "a.store", "salt": SALT, "base_offset": 0, "relative": 0, "position": START, "dense": True}
    return decode_batches(store, **{**span, "end": len(store), **changed})


def table_of(data, *, now=17, values="view") -> pa.Table:
    table = pa.Table.from_batches(batches_of(store_of(data, now=now), values=values), record_schema(values))
    table.validate(full=True)
    return table


def values_of(data) -> list:
    return table_of(data).column("value").to_pylist()


def as_type(kind) -> pa.Array:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.array([None if word is None else word.decode() for word in WORDS], kind)
    return pa.array(WORDS, kind)


KINDS = [
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.string(),
    pa.large_string(),
    pa.string_view(),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_layout_of_bytes_and_strings_is_taken_whole_sliced_and_chunked(kind):
    column = as_type(kind)
    assert values_of(pa.table({"value": column})) == WORDS
    assert values_of(pa.table({"value": column.slice(1, 5)})) == WORDS[1:6]
    chunked = pa.chunked_array([column.slice(2, 3), column.slice(0, 0), column])
    assert values_of(pa.table({"value": chunked})) == WORDS[2:5] + WORDS
    assert table_of(pa.table({"value": column, "key": column.slice(0)})).column("key").to_pylist() == WORDS


@pytest.mark.parametrize("kind", KINDS[:2] + KINDS[3:5], ids=str)
@given(st.lists(st.text(max_size=40), min_size=1), st.data())
def test_rows_without_nulls_are_taken_from_where_arrow_has_them(kind, texts, data):
    words = [text.encode() for text in texts]
    column = pa.array(texts if kind in (pa.string(), pa.large_string()) else words, kind)
    start = data.draw(st.integers(0, len(words)))
    length = data.draw(st.integers(0, len(words) - start))
    known_valid = pa.Array.from_buffers(
        kind, len(words), [pa.py_buffer(b"\xff" * len(words)), *column.buffers()[1:]], 0
    )
    for array in (column, known_valid):
        some = array.slice(start, length)
        found = table_of(pa.table({"value": some, "key": some}))
        assert found.column("value").to_pylist() == found.column("key").to_pylist() == words[start : start + length]
        assert store_of(pa.table({"value": some})) == store_of(pa.table({"value": pa.chunked_array([some, some[:0]])}))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_batch_of_no_rows_is_none(kind):
    for none in (pa.array([], kind), pa.chunked_array([], kind), as_type(kind).slice(3, 0)):
        assert values_of(pa.table({"value": none, "key": none})) == []
    without_offsets = pa.Array.from_buffers(pa.binary(), 0, [None, None, pa.py_buffer(b"")])
    assert values_of(pa.table({"value": without_offsets})) == []


@pytest.mark.parametrize("kind", KINDS[:2] + KINDS[3:5], ids=str)
def test_dictionaries_of_bytes_and_strings_are_taken(kind):
    column = as_type(kind).dictionary_encode()
    assert values_of(pa.table({"value": column})) == WORDS
    assert values_of(pa.table({"value": column.slice(3)})) == WORDS[3:]
    with_null_word = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array([None, b"x"]))
    assert values_of(pa.table({"value": with_null_word})) == [None, b"x", None]
    empty = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.uint32()), pa.array([], kind))
    assert values_of(pa.table({"value": empty})) == [None, None]


def test_fixed_size_binary_and_null_are_taken():
    fixed = pa.array([b"ab", None, b"cd", b"ef"], pa.binary(2))
    assert values_of(pa.table({"value": fixed})) == [b"ab", None, b"cd", b"ef"]
    assert values_of(pa.table({"value": fixed.slice(1)})) == [None, b"cd", b"ef"]
    assert values_of(pa.table({"value": pa.nulls(3)})) == [None] * 3


def test_tables_and_record_batches_without_rows_are_taken():
    for kind in [*KINDS, pa.null(), pa.dictionary(pa.int8(), pa.string())]:
        assert values_of(pa.table({"value": pa.array([], kind)})) == []
        assert values_of(pa.table({"value": pa.chunked_array([], kind)})) == []
    empty = pa.table({"value": pa.array([], pa.binary()), "headers": pa.chunked_array([], pa.list_(PAIR))})
    assert table_of(empty).num_rows == 0
    assert values_of(pa.record_batch({"value": pa.array([b"a"])})) == [b"a"]


def times_of(column, now=17) -> list[int]:
    rows = pa.nulls(len(column), pa.binary())
    return table_of(pa.table({"value": rows, "timestamp": column}), now=now)["timestamp"].cast(pa.int64()).to_pylist()


def test_timestamps_are_microseconds_of_any_unit_and_null_is_now():
    assert times_of(pa.array([1, None, -(2**63), 2**63 - 1], pa.int64())) == [1, 17, -(2**63), 2**63 - 1]
    assert times_of(pa.array([1, None, -1], pa.timestamp("s"))) == [1_000_000, 17, -1_000_000]
    assert times_of(pa.array([1, -1], pa.timestamp("ms", "Europe/Berlin"))) == [1000, -1000]
    assert times_of(pa.array([1, -1], pa.timestamp("us", "UTC"))) == [1, -1]
    assert times_of(pa.array([1999, -1, 0], pa.timestamp("ns"))) == [1, -1, 0]
    assert times_of(pa.nulls(2)) == [17, 17]
    chunks = pa.chunked_array([pa.array([1, None, 2]).slice(1), pa.array([3])])
    assert times_of(chunks, now=5) == [5, 2, 3]


@pytest.mark.parametrize("unit", ["s", "ms"])
@pytest.mark.parametrize("time", [2**62, -(2**62), -(2**63)])
def test_a_time_beyond_64_bits_of_microseconds_is_refused(unit, time):
    with pytest.raises(InvalidArgument, match="timestamp"):
        times_of(pa.array([0, time], pa.int64()).cast(pa.timestamp(unit)))


HEADERS = [[("a", b"x"), ("é", None)], None, [], [("", b"")], [("k" * 65535, b"v" * 300)]]
EXPECTED = [[{"key": key, "value": value} for key, value in row or []] for row in HEADERS]


def headers_of(column) -> list:
    return table_of(pa.table({"value": pa.nulls(len(column)), "headers": column})).column("headers").to_pylist()


def as_pairs(rows) -> list:
    return [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows]


@pytest.mark.parametrize("values", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
@pytest.mark.parametrize("keys", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("lists", [pa.list_, pa.large_list])
def test_headers_are_lists_of_pairs_of_any_layout(keys, values, lists):
    column = pa.array(as_pairs(HEADERS), lists(pa.struct([("key", keys), ("value", values)])))
    assert headers_of(column) == EXPECTED
    assert headers_of(column.slice(1, 3)) == EXPECTED[1:4]
    assert headers_of(pa.chunked_array([column.slice(3), column.slice(0, 2), column.slice(0, 0)])) == (
        EXPECTED[3:] + EXPECTED[:2]
    )


def test_headers_are_maps_and_their_values_may_be_text_or_dictionaries():
    column = pa.array(HEADERS, pa.map_(pa.string(), pa.binary()))
    assert headers_of(column) == EXPECTED
    assert headers_of(column.slice(2)) == EXPECTED[2:]
    text = pa.array([[("a", "é"), ("b", None)]], pa.map_(pa.string(), pa.string()))
    assert headers_of(text) == [[{"key": "a", "value": "é".encode()}, {"key": "b", "value": None}]]
    words = pa.array(["a", "b", "a"]).dictionary_encode()
    pairs = pa.StructArray.from_arrays([words, words], names=["value", "key"])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), pairs)
    assert [[pair["key"] for pair in row] for row in headers_of(lists)] == [["a", "b"], ["a"]]
    assert headers_of(pa.nulls(2)) == [[], []]


def test_a_null_list_over_pairs_that_are_there_has_no_headers():
    pairs = pa.array(as_pairs([[("a", b"x"), ("b", b"y")]])[0], PAIR)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pairs, mask=pa.array([True, False]))
    assert headers_of(lists) == [[], [{"key": "b", "value": b"y"}]]


def test_headers_that_are_no_headers_are_refused():
    def refused(column, error, match):
        with pytest.raises(error, match=match):
            headers_of(column)

    refused(pa.array([[{"key": None, "value": b""}]], pa.list_(PAIR)), InvalidArgument, "a key is null")
    refused(pa.array([[None]], pa.list_(PAIR)), InvalidArgument, "a key is null")
    long = pa.array([[{"key": "k" * 65536, "value": b""}]], pa.list_(PAIR))
    refused(long, InvalidArgument, "longer than 65535")
    bad = pa.array([b"\xff"], pa.binary()).view(pa.string())
    pairs = pa.StructArray.from_arrays([bad, pa.array([b""])], names=["key", "value"])
    refused(pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), pairs), InvalidArgument, "not UTF-8")
    for kind in (pa.list_(pa.string()), pa.list_(pa.struct([("key", pa.string())])), pa.string(), pa.int8()):
        refused(pa.array([], kind), InvalidType, "'headers'")
    refused(pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), InvalidType, "map<string, int64")
    refused(pa.array([[(b"a", b"")]], pa.map_(pa.binary(), pa.binary())), InvalidType, "'headers'")


def refused(data, error, match):
    with pytest.raises(error, match=match):
        ArrowBatch.prepare(data, now=0)


def test_what_is_no_batch_is_refused_by_name_and_type():
    value = pa.array([b"a"])
    refused([b"a"], InvalidType, "list")
    refused(pa.table({"key": value}), InvalidArgument, "no column 'value'")
    refused(pa.table({"value": value, "vaule": value}), InvalidArgument, "'vaule'")
    refused(pa.Table.from_arrays([value, value], names=["value", "value"]), InvalidArgument, "twice")
    for column in (pa.array([1]), pa.array([1.5]), pa.array([[b"a"]]), pa.array([decimal.Decimal(1)])):
        refused(pa.table({"value": column}), InvalidType, "'value' must be binary or string")
        refused(pa.table({"value": value, "key": column}), InvalidType, "'key' must be binary or string")
    for column in (pa.array([1], pa.int32()), pa.array([1.5]), pa.array(["2020"])):
        refused(pa.table({"value": value, "timestamp": column}), InvalidType, "'timestamp'")


def test_arrow_data_that_points_outside_its_buffers_is_refused():
    data = pa.py_buffer(b"abc")
    for kind, width in ((pa.binary(), np.int32), (pa.large_binary(), np.int64)):
        for bad in ([0, 9, 3], [2, 1, 3], [0, -1, 3]):
            offsets = pa.py_buffer(np.array(bad, width))
            damaged = pa.Array.from_buffers(kind, 2, [None, offsets, data])
            refused(pa.table({"value": damaged}), InvalidArgument, "damaged")
    for words in ([13, 0, 0, 0], [13, 0, 1, 0], [100, 0, 0, 5]):
        views = pa.py_buffer(np.array(words, np.uint32))
        damaged = pa.Array.from_buffers(pa.binary_view(), 1, [None, views, data])
        refused(pa.table({"value": damaged}), InvalidArgument, "damaged")
    pairs = pa.array([{"key": "a", "value": b""}], PAIR)
    lists = pa.ListArray.from_buffers(
        pa.list_(PAIR), 2, [None, pa.py_buffer(np.array([0, 7, 1], np.int32))], children=[pairs]
    )
    refused(pa.table({"value": pa.nulls(2), "headers": lists}), InvalidArgument, "damaged")


def test_rows_that_do_not_fit_are_refused_before_a_byte_is_written():
    batch = ArrowBatch.prepare(pa.table({"value": [b"abc"]}), now=0)
    out, state = bytearray(40), MarksState.start(4096)
    for start, stop, size, relative, position in (
        (0, 1, 34, 0, 64),
        (0, 2, 40, 0, 64),
        (1, 0, 40, 0, 64),
        (0, 1, 40, 2**32, 64),
        (0, 1, 40, 0, 2**32 - 35),
    ):
        target = memoryview(out)[:size]
        with pytest.raises(InvalidArgument):
            batch.encode(start, stop, out=target, relative=relative, position=position, salt=0, marks_state=state)
    assert out == bytearray(40)


def test_a_batch_and_a_single_append_write_the_same_bytes():
    headers = b"\x01\x00h\x02\x00\x00\x00xy"
    data = pa.table(
        {
            "value": [b"v" * 20, None],
            "key": [None, b"k"],
            "timestamp": [4, -4],
            "headers": pa.array([[{"key": "h", "value": b"xy"}], None], pa.list_(PAIR)),
        }
    )
    singles = [NATIVE.encode(0, 4, None, b"v" * 20, headers, SALT), NATIVE.encode(1, -4, b"k", None, b"", SALT)]
    assert store_of(data)[START:] == b"".join(head + value for (head, value), _, _ in singles)


def test_what_came_out_can_be_appended_again():
    data = pa.table(
        {"value": WORDS, "key": WORDS[::-1], "headers": pa.array([as_pairs(HEADERS)[0]] * 8, pa.list_(PAIR))}
    )
    for values in ("view", "binary"):
        once = table_of(data, values=values)
        assert once.schema == record_schema(values)
        assert table_of(once, values=values).equals(once)
        assert table_of(once.slice(2, 4)).column("value").to_pylist() == WORDS[2:6]


def test_views_share_the_memory_of_the_store_and_keep_its_map_alive(tmp_path):
    path = tmp_path / "a.store"
    path.write_bytes(store_of(pa.table({"value": [b"v" * 100]})))
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    (batch,) = batches_of(mapped)
    start = np.frombuffer(mapped, np.uint8).ctypes.data
    data = batch.column("value").buffers()[2]
    assert start <= data.address < start + len(mapped)
    del mapped
    assert batch.column("value").to_pylist() == [b"v" * 100]


def test_damage_raises_after_the_records_before_it_and_names_the_place():
    store = bytearray(store_of(pa.table({"value": [b"a", b"b", b"c"]})))
    store[START + 33 + 24] ^= 1
    batches = batches_of(bytes(store), base_offset=50)
    assert next(batches).column("offset").to_pylist() == [50]
    with pytest.raises(CorruptRecord, match="offset 51 at position 97 is damaged: the checksum") as raised:
        next(batches)
    assert (raised.value.path, raised.value.offset, raised.value.position) == ("a.store", 51, 97)
    with pytest.raises(CorruptRecord, match="a record at position 97"):
        list(batches_of(bytes(store), dense=False))


def test_a_live_tail_ends_where_no_valid_record_is_yet_and_can_be_taken_up_again():
    store = store_of(pa.table({"value": [b"a", b"b", b"c"]}))
    begun = batches_of(store[:120], tail=True)
    assert [batch.num_rows for batch in begun] == [1]
    assert (begun.position, begun.next_relative, begun.reason) == (97, 1, "fewer than 32 bytes are left")
    rest = list(batches_of(store, position=begun.position, relative=begun.next_relative))
    assert [batch.column("offset").to_pylist() for batch in rest] == [[1, 2]]
    assert list(batches_of(store, position=len(store), relative=3)) == []


def test_a_value_too_long_for_arrow_is_refused_not_cut():
    store = np.zeros(START + 32 + 2**31, np.uint8)  # zero pages: never touched, but for the head
    value_hash = xxhash.xxh64(store[START + 32 :]).intdigest()
    head, _ = seal_head(0, 0, None, b"", 2**31, value_hash, SALT)
    store[START : START + 32] = np.frombuffer(head, np.uint8)
    with pytest.raises(InvalidArgument, match="2 GiB"):
        next(batches_of(store))
    assert (
        scan_store(store, salt=SALT, relative=0, position=START, end=len(store), dense=True, interval=4096).records == 1
    )


def test_values_must_be_view_or_binary():
    with pytest.raises(InvalidArgument, match="values"):
        record_schema("text")


def test_partitions_are_those_of_kafka_for_every_layout_of_keys():
    for kind in (pa.binary(), pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        keys = pa.array(
            [b"21", None, b"foobar", b"abc"] if kind == pa.binary() else ["21", None, "foobar", "abc"], kind
        )
        hashes = [-973932308, None, -790332482, 479470107]
        expected = [-1 if digest is None else (digest & 0x7FFFFFFF) % 7 for digest in hashes]
        assert partitions_of(keys, 7).tolist() == expected
        assert partitions_of(pa.chunked_array([keys, keys.slice(2)]), 7).tolist() == expected + expected[2:]


def test_a_filtered_or_sorted_pandas_frame_is_stored_without_its_index(tmp_path):
    # what pa.Table.from_pandas makes of it
    chosen = pa.table({"key": [b"c", b"b"], "value": [b"3", b"2"], "__index_level_0__": [2, 1]})
    with seglog.open(tmp_path / "log") as log, seglog.Topic.create(tmp_path / "topic", partitions=2) as topic:
        log.append_batch(chosen)
        assert [record.value for record in log.scan()] == [b"3", b"2"]
        topic.append_batch(chosen)
        topic.append_batch(chosen.append_column("partition", pa.array([1, 1], pa.int32())))
        assert sum(len(topic.partition(number)) for number in range(2)) == 4
        with pytest.raises(seglog.InvalidArgument, match="named"):
            log.append_batch(chosen.rename_columns(["key", "value", "named"]))
