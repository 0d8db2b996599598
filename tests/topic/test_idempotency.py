"""Idempotency keys: whatever is repeated, and whenever, is stored once. Batches have test_once_batches.py."""

from __future__ import annotations

import contextlib
import errno
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from xxhash import xxh64_intdigest

import seglog
from seglog.errors import InvalidArgument, InvalidType, OnceConflict
from seglog.topic import Topic, partition_of
from seglog.topic.idempotency.marks import HEADER, Share, mark_of, read_mark
from seglog.topic.idempotency.memory import OnceWindow
from tests.topic.contents import ends, held, table
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SMALL = seglog.LogConfig(segment_bytes=512)


# --- one record -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{"key": b"k"}, {}, {"partition": 2}, {"key": b"k", "headers": [("a", b"b")]}])
@pytest.mark.parametrize("value", [b"v", b"", None])
def test_a_repeated_append_returns_what_the_first_did_and_stores_nothing(
    topic: Topic, root: Path, given: Any, value: bytes | None
) -> None:
    topic.append(b"before", key=b"k")
    place = topic.append(value, once="a", **given)
    assert topic.append(value, once="a", **given) == place
    stored = ends(topic)
    topic.close()
    with Topic.open(root) as again:
        assert again.append(value, once="a", **given) == place
        assert ends(again) == stored
        assert again.append(value, once="b", **given) != place


def test_a_record_carries_its_key_in_one_write(topic: Topic) -> None:
    number, offset = topic.append(b"v", key=b"k", headers=[("a", b"b")], once="mine 1")
    record = topic.partition(number).read(offset)
    assert record.headers[1:] == (("a", b"b"),)
    (name, mark), digest = (
        record.headers[0],
        xxh64_intdigest(b"".join(xxh64_intdigest(part).to_bytes(8, "little") for part in (b"k", b"v"))),
    )
    assert (name, mark) == (HEADER, b"1 %016x mine 1" % digest)


def test_a_key_that_a_copied_record_carries_is_replaced(topic: Topic) -> None:
    number, offset = topic.append(b"v", key=b"k", once="a")
    copied = topic.partition(number).read(offset)
    again = topic.append(b"v", key=b"k", headers=[*copied.headers, ("x", None)], once="b")
    assert again != (number, offset)
    names = [name for name, _ in topic.partition(again[0]).read(again[1]).headers]
    assert names == [HEADER, "x"]


@pytest.mark.parametrize("other", [{"value": b"w"}, {"value": None}, {"value": b"v", "key": b"other"}, {"value": b""}])
@pytest.mark.parametrize("reopened", [False, True])
def test_another_payload_under_the_same_key_is_refused_and_nothing_stored(
    topic: Topic, root: Path, other: Any, reopened: bool
) -> None:
    topic.append(b"v", once="a")
    stored = ends(topic)
    if reopened:
        topic.close()
    with Topic.open(root) if reopened else contextlib.nullcontext(topic) as again:
        with pytest.raises(OnceConflict, match="once='a' was used before"):
            again.append(**other, once="a")
        with pytest.raises(OnceConflict):
            again.append_batch(table(2), once="a")
        assert ends(again) == stored


@pytest.mark.parametrize("rows", [None, 3])
def test_a_poisoned_log_acknowledges_nothing_that_is_repeated(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, rows: int | None
) -> None:
    def append() -> Any:
        return topic.append(b"v", partition=0, once="a") if rows is None else topic.append_batch(table(rows), once="a")

    def refused(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    stored = append()
    log = topic.partition(0 if rows is None else next(iter(stored)))
    with monkeypatch.context() as patch:
        patch.setattr("seglog.storage.local_file.sync_data", refused)
        with pytest.raises(seglog.LogPoisoned):
            log.sync()
    assert isinstance(log.failure, seglog.LogPoisoned)
    with pytest.raises(seglog.LogPoisoned):
        append()


def test_expected_offset_is_not_asked_of_what_is_stored_already(topic: Topic) -> None:
    assert topic.append(b"v", partition=1, expected_offset=0, once="a") == (1, 0)
    topic.append(b"w", partition=1)
    assert topic.append(b"v", partition=1, expected_offset=0, once="a") == (1, 0)
    with pytest.raises(seglog.OffsetConflict):
        topic.append(b"v", partition=1, expected_offset=0, once="b")
    assert topic.append(b"v", partition=1, expected_offset=2, once="b") == (1, 2)


def test_what_failed_may_be_tried_again(topic: Topic) -> None:
    with pytest.raises(seglog.RecordTooLarge):
        topic.append(b"v" * 5000, once="a")
    assert topic.append(b"v", once="a")[1] == 0


@pytest.mark.parametrize("once", ["", "x" * 201, "a\nb", "ä"])
def test_a_key_that_is_none_of_ours_is_refused(topic: Topic, once: str) -> None:
    for call in (lambda: topic.append(b"v", once=once), lambda: topic.append_batch(table(1), once=once)):
        with pytest.raises(InvalidArgument, match="printable ASCII"):
            call()
    with pytest.raises(InvalidType):
        topic.append(b"v", once=5)  # type: ignore[arg-type] # the point of the test


def test_a_streamed_value_is_known_by_its_digest(topic: Topic) -> None:
    digest = xxh64_intdigest(b"hello world")
    place = topic.append_stream([b"hello ", b"world"], key=b"k", once="a", digest=digest)
    assert topic.append_stream([b"not looked at"], key=b"k", once="a", digest=digest) == place
    assert topic.append(b"hello world", key=b"k", once="a") == place
    with pytest.raises(OnceConflict):
        topic.append_stream([b"other"], key=b"k", once="a", digest=xxh64_intdigest(b"other"))
    with pytest.raises(InvalidArgument, match="needs digest"):
        topic.append_stream([b"v"], once="b")
    with pytest.raises(InvalidArgument, match="nothing was stored"):
        topic.append_stream([b"v"], once="b", digest=7)
    assert held(topic) == {place[0]: [b"hello world"]}


def test_who_repeats_while_the_first_is_under_way_waits_for_it(topic: Topic) -> None:
    digest, second_started, results = xxh64_intdigest(b"ab"), threading.Event(), []

    def repeat() -> None:
        second_started.set()
        results.append(topic.append(b"ab", once="a"))

    def chunks() -> Iterator[bytes]:
        yield b"a"
        second.start()
        assert second_started.wait(HANG_SECONDS)
        assert results == []
        yield b"b"

    second = threading.Thread(target=repeat, daemon=True)
    place = topic.append_stream(chunks(), once="a", digest=digest)
    second.join(HANG_SECONDS)
    assert results == [place]
    assert sum(ends(topic)) == 1


def test_an_append_is_ready_where_it_neither_waits_nor_reads_a_log(topic: Topic, root: Path) -> None:
    topic.append(b"v", partition=1, once="a")
    assert topic.is_ready(1, 100, once="b")
    assert topic.is_ready(1, 100)
    assert not topic.is_ready(1, 512), "the log would roll"
    assert not topic.is_ready(1, 100, once="a"), "what is repeated may have to be looked for"
    ready: list[bool] = []

    def chunks() -> Iterator[bytes]:
        other = threading.Thread(target=lambda: ready.extend([topic.is_ready(2, 1), topic.is_ready(1, 1, once="c")]))
        other.start()
        other.join(HANG_SECONDS)
        yield b"v"

    topic.append_stream(chunks(), partition=2, once="c", digest=xxh64_intdigest(b"v"))
    assert ready == [False, False], "the log is held, and so is the key"
    topic.close()
    with Topic.open(root) as again:
        assert not again.is_ready(1, 100, once="b"), "the end of the logs is still to be read"
        assert again.is_ready(1, 100)


def test_many_threads_that_repeat_each_other_store_everything_once(topic: Topic) -> None:
    places: list[dict[int, tuple[int, int]]] = [{} for _ in range(8)]

    def work(number: int) -> None:
        for turn in range(60):
            name = (turn * 7 + number * 13) % 60
            places[number][name] = topic.append(b"%d" % name, once=f"key {name}")

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert all(one == places[0] for one in places)
    assert sum(ends(topic)) == len(places[0]) == 60


def test_a_program_that_appends_single_records_to_a_new_topic_loads_no_arrow(root: Path) -> None:
    text = f"""
import sys
from seglog.topic import Topic
with Topic.create({str(root)!r}, partitions=2) as topic:
    topic.append(b"v", once="a")
    assert topic.append(b"v", once="a")[1] == 0
assert "pyarrow" not in sys.modules and "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=HANG_SECONDS)


def test_an_interrupt_between_storing_and_remembering_does_not_store_it_twice(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = topic.partition(1)

    def interrupted(*arguments: Any, **named: Any) -> int:
        type(log).append(log, *arguments, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(log, "append", interrupted)
        topic.append(b"v", partition=1, once="a")
    assert topic.append(b"v", partition=1, once="a") == (1, 0)


# --- which partition --------------------------------------------------------------------------------------------------


def test_a_record_without_a_key_goes_where_its_once_says_so_that_a_retry_takes_the_same_way(topic: Topic) -> None:
    for number in range(20):
        once = f"once {number}"
        assert topic.append(b"v", once=once)[0] == topic.route(None, once) == partition_of(once.encode(), 3)
    assert topic.append(b"v", key=b"k", once="other")[0] == topic.route(b"k", "other") == partition_of(b"k", 3)
    assert [topic.route(None) for _ in range(4)] == [0, 1, 2, 0]


def test_a_named_partition_takes_the_record_whatever_its_key(topic: Topic) -> None:
    assert [topic.append(b"v", key=b"k", partition=number) for number in (2, 2, 0)] == [(2, 0), (2, 1), (0, 0)]
    assert topic.append_stream([b"v"], partition=1) == (1, 0)
    assert topic.append_batch(table(3), partition=1) == {1: range(1, 4)}
    assert topic.append_batch(table(0), partition=1) == {}
    for call in (topic.append, lambda _, partition: topic.append_batch(table(1), partition=partition)):
        with pytest.raises(InvalidArgument, match="partitions 0 to 2"):
            call(b"v", partition=3)
    with pytest.raises(InvalidArgument, match="needs partition"):
        topic.append(b"v", expected_offset=0)


# --- what is remembered -----------------------------------------------------------------------------------------------


def test_what_was_truncated_is_forgotten_and_what_stays_is_not(topic: Topic) -> None:
    kept, gone = topic.append(b"kept", partition=1, once="kept"), topic.append(b"gone", partition=1, once="gone")
    topic.partition(1).truncate(1)
    topic.append(b"in its place", partition=1)
    assert topic.append(b"kept", partition=1, once="kept") == kept
    assert topic.append(b"gone", partition=1, once="gone") == (1, 2) != gone


def test_a_batch_that_was_truncated_in_the_middle_is_completed(topic: Topic) -> None:
    topic.append_batch(table(10), partition=1, once="a")
    topic.partition(1).truncate(4)
    assert topic.append_batch(table(10), partition=1, once="a") == {1: range(10)}
    assert held(topic)[1] == table(10)["value"].to_pylist()


def test_only_the_latest_keys_are_remembered(root: Path) -> None:
    with Topic.create(root, partitions=2, once_window=OnceWindow(keys=4)) as topic:
        places = [topic.append(b"v", partition=number % 2, once=str(number)) for number in range(6)]
        assert [topic.append(b"v", partition=0, once=str(number)) for number in (2, 3, 4, 5)] == places[2:]
        assert topic.append(b"v", partition=0, once="0") == (0, 3)
    with Topic.open(root, once_window=OnceWindow(keys=4)) as topic:
        assert topic.append(b"v", partition=1, once="3") == places[3], "each partition keeps its share of the window"
        assert topic.append(b"v", partition=1, once="5") == places[5]
        assert topic.append(b"v", partition=0, once="2") == (0, 4)


@pytest.mark.parametrize("segment_bytes", [512, 2**20])
def test_only_the_end_of_a_store_is_looked_through(root: Path, segment_bytes: int) -> None:
    with Topic.create(root, partitions=1, config=seglog.LogConfig(segment_bytes=segment_bytes)) as topic:
        for number in range(100):
            topic.append(b"v" * 50, once=f"{number:02}")
        size = topic.partition(0).size
    with Topic.open(root, once_window=OnceWindow(bytes=size // 2)) as topic:
        assert topic.append(b"v" * 50, once="60") == (0, 60)
        assert topic.append(b"v" * 50, once="30") == (0, 100)


def test_damage_at_the_end_takes_the_memory_of_its_record_and_hinders_nobody(root: Path) -> None:
    with Topic.create(root, partitions=1, config=SMALL) as topic:
        for number in range(20):
            topic.append(b"value %02d" % number, once=f"{number:02}")
        store = root / "0" / topic.partition(0).segments[2].name
        damaged = topic.partition(0).segments[2].base_offset
    data = store.read_bytes()
    store.write_bytes(data.replace(b"value %02d" % damaged, b"VALUE %02d" % damaged))
    with Topic.open(root) as topic:
        assert topic.append(b"value 00", once="00") == (0, 0)
        assert topic.append(b"value %02d" % (damaged + 1), once=f"{damaged + 1:02}") == (0, damaged + 1)
        assert topic.append(b"value 19", once="19") == (0, 19)
        assert topic.append(b"value %02d" % damaged, once=f"{damaged:02}") == (0, 20)


@pytest.mark.parametrize("value", [None, b"", b"1 abc key", b"x 0123456789abcdef key", b"1 0123456789abcdef "])
def test_somebody_elses_header_of_that_name_is_none_of_ours(topic: Topic, root: Path, value: bytes | None) -> None:
    assert read_mark(value, 0, 0) is None
    topic.append(b"v", headers=[(HEADER, value)])
    topic.close()
    with Topic.open(root) as again:
        again.append(b"v", once="key")
        assert sum(ends(again)) == 2


@pytest.mark.parametrize(
    "share", [Share(1, 5, 7, 2**64 - 1), Share(1, 5, 7, 0, 3), Share(1, 5, 1, 9), Share(1, 5, 7, 9, own=8)]
)
def test_a_mark_says_what_was_put_into_it_and_is_not_verified(share: Share) -> None:
    found = read_mark(mark_of("the key", share), share.partition, share.first)
    assert found == ("the key", share._replace(whole=False, verified=False))


class OnceMachine(RuleBasedStateMachine):
    """A topic and a dict key -> (payload, places), whatever is repeated, and whenever it is opened or cut."""

    KEYS = st.sampled_from(["a", "b", "c", "d"])
    ROWS = st.lists(
        st.tuples(st.sampled_from([None, b"k", b"l"]), st.sampled_from([b"v", b"w"])), min_size=1, max_size=4
    )

    @initialize()
    def create(self) -> None:
        import tempfile  # noqa: PLC0415 - a machine has no fixtures

        self.directory = tempfile.TemporaryDirectory()
        self.topic = Topic.create(f"{self.directory.name}/t", partitions=2, config=SMALL)
        self.known: dict[str, Any] = {}
        self.rows = 0

    def _repeat(self, once: str, payload: Any, append: Callable[[], Any]) -> None:
        known = self.known.get(once)
        if known is not None and known[0] != payload:
            with pytest.raises(OnceConflict):
                append()
            return
        result = append()
        if known is None:
            self.known[once] = payload, result
            self.rows += len(payload)
        else:
            assert result == known[1]

    @rule(once=KEYS, rows=ROWS)
    def append_batch(self, once: str, rows: list[Any]) -> None:
        keys, data = zip(*rows, strict=True)
        batch = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(data, pa.binary())})

        def places() -> list[tuple[int, int]]:
            found = self.topic.append_batch(batch, once=once)
            return [(number, offset) for number, at in found.items() for offset in at]

        self._repeat(once, rows, places)

    @rule(once=KEYS, row=ROWS)
    def append(self, once: str, row: list[Any]) -> None:
        key, value = row[0]
        self._repeat(once, row[:1], lambda: [self.topic.append(value, key=key, once=once)])

    @rule(value=st.binary(max_size=200))
    def append_other(self, value: bytes) -> None:
        self.topic.append(value)
        self.rows += 1

    @rule()
    def reopen(self) -> None:
        self.topic.close()
        self.topic = Topic.open(self.topic.path)

    @rule(number=st.integers(0, 1), data=st.data())
    def truncate(self, number: int, data: st.DataObject) -> None:
        """Only behind the last record of a known key, or in front of all: what is parted is another test."""
        places = [place[1] for _, at in self.known.values() for place in at if place[0] == number]
        end = self.topic.partition(number).next_offset
        cut = data.draw(st.integers(max(places, default=-1) + 1, end))
        self.topic.partition(number).truncate(cut)
        self.rows -= end - cut

    @invariant()
    def all_is_stored_once(self) -> None:
        if hasattr(self, "topic"):
            assert sum(ends(self.topic)) == self.rows

    def teardown(self) -> None:
        if hasattr(self, "topic"):
            self.topic.close()
            self.directory.cleanup()


TestOnceMachine = pytest.mark.no_cover(OnceMachine.TestCase)
TestOnceMachine.settings = settings(max_examples=25, stateful_step_count=30)
