"""Batches with an idempotency key: repeated, parted, completed, after whatever end, they are stored once."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.errors import InvalidArgument, InvalidType, OnceConflict
from seglog.testing.faulty import Fault
from seglog.topic import Topic
from seglog.topic.idempotency.marks import HEADER
from tests.topic.contents import ends, held, table
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from pathlib import Path


# --- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_a_repeated_batch_is_stored_once(topic: Topic, root: Path, rows: int, keys: bool) -> None:
    batch = table(rows, keys=keys)
    offsets = topic.append_batch(batch, once="a")
    assert sum(map(len, offsets.values())) == rows
    topic.append_batch(table(5))
    assert topic.append_batch(batch.combine_chunks(), once="a") == offsets
    stored = held(topic)
    topic.close()
    with Topic.open(root) as again:
        assert again.append_batch(batch, once="a") == offsets
        with pytest.raises(OnceConflict):
            again.append_batch(table(rows, tag="w", keys=keys), once="a")
        with pytest.raises(OnceConflict):
            again.append_batch(table(rows + 1, keys=keys), once="a")
        assert held(again) == stored


def test_a_batch_of_one_row_and_one_append_are_the_same_payload(topic: Topic) -> None:
    place = topic.append(b"v", key=b"k", once="a")
    assert topic.append_batch(pa.table({"key": ["k"], "value": ["v"]}), once="a") == {place[0]: range(1)}


def test_a_batch_without_rows_is_nothing_to_remember(topic: Topic) -> None:
    assert topic.append_batch(table(0), once="a") == {}
    assert topic.append_batch(table(1), once="a") != {}


def test_a_share_that_is_missing_is_made_up_for(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, last = table(30), topic.partition(2)

    def refuse(_: Any, **__: Any) -> range:
        raise seglog.StorageError(28, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(last, "append_batch", refuse)
        with pytest.raises(seglog.StorageError) as caught:
            topic.append_batch(batch, once="a")
    assert "nothing was appended to partition 2" in caught.value.__notes__[0]
    assert ends(topic)[2] == 0
    before = ends(topic)
    offsets = topic.append_batch(batch, once="a")
    assert ends(topic)[:2] == before[:2]
    assert {number: at.stop for number, at in offsets.items()} == dict(enumerate(ends(topic)))


PAIR = [("key", pa.string())]
KINDS = [
    pa.list_(pa.struct([*PAIR, ("value", pa.binary())])),
    pa.large_list(pa.struct([("value", pa.string()), *PAIR])),
    pa.list_(pa.struct([*PAIR, ("value", pa.dictionary(pa.int32(), pa.binary()))])),
    pa.list_(pa.struct([*PAIR, ("value", pa.binary(2))])),
    pa.map_(pa.string(), pa.binary()),
    pa.null(),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_headers_of_any_type_stay_beside_the_mark(topic: Topic, kind: Any) -> None:
    text = (
        not pa.types.is_map(kind) and not pa.types.is_null(kind) and kind.value_type.field("value").type == pa.string()
    )
    pair = ("a", "xy" if text else b"xy")
    row = [pair] if pa.types.is_map(kind) else [dict(zip(("key", "value"), pair, strict=True))]
    headers = pa.array([None, None, None] if pa.types.is_null(kind) else [row, None, row], kind)
    (number, offsets) = topic.append_batch(
        pa.table({"value": [b"1", b"2", b"3"], "headers": headers}), partition=1, once="a"
    ).popitem()
    found = [topic.partition(number).read(offset).headers for offset in offsets]
    own = () if pa.types.is_null(kind) else (("a", b"xy"),)
    assert found[0][0][0] == HEADER
    assert [found[0][1:], *found[1:]] == [own, (), own]


@pytest.mark.parametrize(
    "batch",
    [
        pa.table({"key": [b"k"]}),
        pa.table({"value": [1]}),
        pa.table({"value": [b"v"], "other": [b"v"]}),
        pa.table({"value": [b"v"], "headers": [5]}),
        pa.table({"value": [b"v"], "headers": pa.array([[None]], KINDS[0])}),
    ],
    ids=lambda batch: ",".join(map(str, batch.schema.types)),
)
def test_a_batch_that_a_log_refuses_is_refused_in_the_same_words(topic: Topic, batch: pa.Table) -> None:
    errors = []
    for once in (None, "a"):
        with pytest.raises((InvalidArgument, InvalidType)) as caught:
            topic.append_batch(batch, once=once)
        errors.append((type(caught.value), str(caught.value)))
    assert errors[0] == errors[1]
    assert sum(ends(topic)) == 0


# --- what a crash leaves ----------------------------------------------------------------------------------------------

BATCH = {
    "value": [b"new %02d " % row * 6 for row in range(40)],
    "key": [b"k%d" % (row % 9) for row in range(40)],
}


@pytest.mark.parametrize("others", [0, pytest.param(3, marks=pytest.mark.proof)], ids=["at once", "others first"])
@pytest.mark.parametrize("keep", [0.0, pytest.param(0.6, marks=pytest.mark.proof)])
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.proof)], ids=["some calls", "every call"])
def test_a_batch_is_completed_whenever_the_process_died(laboratory: Any, keep: float, others: int, every: int) -> None:
    parted = 0
    for run in laboratory.runs(
        lambda topic: topic.append_batch(pa.table(BATCH), once="a"), Fault(keep=keep), every=every
    ):
        run.storage.crash()
        before = len(stored_of(run.scene.root))
        with Topic.open(run.scene.root) as topic:
            for number in range(others):
                topic.append_batch(pa.table({"value": [b"other %d" % number] * 4}))
        with Topic.open(run.scene.root) as topic:
            offsets = topic.append_batch(pa.table(BATCH), once="a")
            assert topic.append_batch(pa.table(BATCH), once="a") == offsets
        with Topic.open(run.scene.root) as topic:
            assert topic.append_batch(pa.table(BATCH), once="a") == offsets
            run.scene.check_sound(topic)
        found = stored_of(run.scene.root)
        assert sorted(found) == sorted(BATCH["value"])
        for key in set(BATCH["key"]):
            rows = [value for name, value in zip(BATCH["key"], BATCH["value"], strict=True) if name == key]
            assert [value for value in found if value in rows] == rows, "one key's records keep their order"
        parted += 0 < before < len(BATCH["value"])
    assert parted > (3 if every == 1 else 0)


def stored_of(root: Path) -> list[bytes]:
    with Topic.open(root, mode="r") as topic:
        return [value for rows in held(topic).values() for value in rows if value and value.startswith(b"new")]


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.proof)], ids=["some calls", "every call"])
def test_equal_rows_of_another_caller_after_a_part_are_not_taken_for_the_rest(laboratory: Any, every: int) -> None:
    batch, told = pa.table({"value": [b"same" * 20] * 20}), 0
    for run in laboratory.runs(lambda topic: topic.append_batch(batch, partition=1, once="a"), Fault(), every=every):
        run.storage.crash()
        with Topic.open(run.scene.root) as topic:
            part = ends(topic)[1]
            for _ in range(20):
                topic.append(b"same" * 20, partition=1)
        with Topic.open(run.scene.root) as topic:
            topic.append_batch(batch, partition=1, once="a")
            assert ends(topic)[1] == 40
        told += 0 < part < 20
    assert told > 0


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.proof)], ids=["some calls", "every call"])
def test_a_caller_who_names_other_times_when_he_repeats_gets_what_is_stored(laboratory: Any, every: int) -> None:
    def stamped(time: int) -> pa.Table:
        return pa.table({"value": BATCH["value"], "timestamp": [time + row for row in range(40)]})

    def append(topic: Topic) -> object:
        return topic.append_batch(stamped(0), partition=1, once="a")

    for run in laboratory.runs(append, Fault(keep=0.6), every=every):
        run.storage.crash()
        with Topic.open(run.scene.root) as topic:
            topic.append_batch(stamped(5_000), partition=1, once="a")
        assert stored_of(run.scene.root) == BATCH["value"]


PRODUCER = """
import sys, pyarrow as pa, seglog
from seglog.topic import Topic
rows = int(sys.argv[2])
with Topic.open(sys.argv[1]) as topic:
    for number in range(int(sys.argv[3]), 10**6):
        print(number, flush=True)
        values = [b"%d/%d " % (number, row) * 10 for row in range(rows)]
        keys = [b"%d" % (row % 7) for row in range(rows)]
        topic.append_batch(pa.table({"value": values, "key": keys}), once=f"b{number}")
"""


def test_batches_of_a_process_that_was_killed_are_stored_once_when_they_are_repeated(root: Path) -> None:
    rows, first, torn = 600, 0, 0
    Topic.create(root, partitions=2, config=seglog.LogConfig(segment_bytes=4096)).close()

    def batch(number: int) -> pa.Table:
        found = [b"%d/%d " % (number, row) * 10 for row in range(rows)]
        return pa.table({"value": found, "key": [b"%d" % (row % 7) for row in range(rows)]})

    for kill_at in (1, 2, 1, 3, 1, 2):
        arguments = [sys.executable, "-c", PRODUCER, str(root), str(rows), str(first)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            started = [int(process.stdout.readline()) for _ in range(kill_at)][-1]
            wait_for_growth(root)
            process.kill()
            started = max([started, *map(int, process.stdout.read().split())])
        with Topic.open(root) as topic:
            torn += sum(ends(topic)) % rows != 0
            for number in range(started + 1):
                offsets = topic.append_batch(batch(number), once=f"b{number}")
                assert sum(map(len, offsets.values())) == rows
            assert sum(ends(topic)) == rows * (started + 1)
        first = started + 1
    with Topic.open(root, mode="r") as topic:
        found = sorted(value or b"" for part in held(topic).values() for value in part)
    assert found == sorted(b"%d/%d " % (number, row) * 10 for number in range(first) for row in range(rows))
    assert torn > 0, "no kill came in the middle of a batch"


def wait_for_growth(root: Path) -> None:
    """Return once the process has put something more into the topic."""
    with Topic.open(root, mode="r") as reader:
        before = sum(ends(reader))
        tails = [reader.partition(number).follow(timeout=HANG_SECONDS) for number in range(reader.partitions)]
        next(tails[0])
        assert sum(ends(reader)) > before
