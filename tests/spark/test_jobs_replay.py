"""The replay job: the state machine replication principle, on the classroom of the article that the log comes from."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import PerKey
from seglog.errors import InvalidArgument
from seglog.machines.machine import named_machine
from seglog.record import Record
from seglog.spark.java import use_java
from seglog.spark.replay import __main__ as program
from seglog.spark.replay import replay
from seglog.spark.replay.classroom import Classroom
from seglog.topic import Topic
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
SMALL = seglog.LogConfig(segment_bytes=2048)
PLANS: list[Any] = ["partition", "shuffle"]
CLASSROOM = "seglog.spark.replay.classroom:Classroom"


def lesson(count: int, seed: int = 1) -> list[bytes]:
    """Instructions whose numbers stay small enough to be exact."""
    draw = random.Random(seed)
    words = [b"Add", b"Sub", b"Mul", b"Div"]
    return [b"%s %d" % (draw.choice(words), draw.randint(1, 9)) for _ in range(count)]


def by_hand(instructions: list[bytes]) -> bytes:
    """What a student gets: a plain loop, without the machine."""
    number = Fraction(42)
    for instruction in instructions:
        word, operand = instruction.decode().split()
        x = int(operand)
        number = {"Add": number + x, "Sub": number - x, "Mul": number * x, "Div": number / x}[word]
    return str(number).encode()


def ends(frame: DataFrame) -> dict[tuple[int, bytes | None], tuple[int, bytes]]:
    rows = frame.collect()
    found = {
        (row.partition, None if row.key is None else bytes(row.key)): (row.offset, bytes(row.state)) for row in rows
    }
    assert len(found) == len(rows), "a machine is there twice"
    return found


@dataclass(frozen=True)
class Heard:
    """A machine that remembers everything it was told, in order."""

    def initial(self) -> list[str]:
        return []

    def apply(self, state: list[str], record: Record) -> list[str]:
        headers = ",".join(name for name, _ in record.headers)
        state.append(f"{record.offset}:{record.timestamp}:{(record.value or b'-').decode()}:{headers}")
        return state

    def encode(self, state: list[str]) -> bytes:
        return " ".join(state).encode()


def test_the_lesson_of_the_article() -> None:
    assert by_hand([b"Add 3"]) == b"45"
    assert by_hand([b"Add 3", b"Div 5"]) == b"9"


@pytest.mark.parametrize("plan", PLANS)
def test_a_log_without_keys_is_one_machine(spark: SparkSession, tmp_path: Path, plan: Any) -> None:
    instructions = lesson(300)
    with seglog.open(tmp_path / "lesson", SMALL) as log:
        for instruction in instructions:
            log.append(instruction)
    found = ends(replay(spark, tmp_path / "lesson", Classroom(), plan=plan))
    assert found == {(0, None): (299, by_hand(instructions))}


def test_every_replica_ends_in_the_same_state_however_the_work_is_dealt_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Students are keys; the sheets are cut into other segments and partitions for every replica."""
    students = {b"student %d" % number: lesson(40, number) for number in range(12)}
    for replica, (partitions, segment_bytes) in enumerate([(1, 100_000), (3, 1024), (5, 4096)]):
        with Topic.create(
            tmp_path / f"replica {replica}",
            partitions=partitions,
            config=seglog.LogConfig(segment_bytes=segment_bytes),
        ) as topic:
            for round_ in range(40):
                for student, instructions in students.items():
                    topic.append(instructions[round_], key=student)
    expected = {student: by_hand(instructions) for student, instructions in students.items()}
    shuffles = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        for replica, (plan, tasks) in enumerate([("partition", 2), ("shuffle", 1), ("shuffle", 7)]):
            spark.conf.set("spark.sql.shuffle.partitions", tasks)
            for path in (tmp_path / f"replica {replica}", tmp_path / "replica 1"):
                found = ends(replay(spark, path, Classroom(), plan=plan))  # type: ignore[arg-type] # one of the two
                assert {key: state for (_, key), (_, state) in found.items()} == expected
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", shuffles or 2)


@pytest.mark.parametrize("plan", PLANS)
def test_records_are_applied_in_offset_order_across_batches_and_segments(
    spark: SparkSession, tmp_path: Path, plan: Any
) -> None:
    draw = random.Random(3)
    told: dict[tuple[int, bytes | None], list[str]] = {}
    with Topic.create(tmp_path / "told", partitions=2, config=seglog.LogConfig(segment_bytes=100_000)) as topic:
        for number in range(12_000):  # more than one Arrow batch
            key = draw.choice([None, b"", b"a", b"b", b"c"])
            value = None if number % 50 == 0 else b"%d" % number
            headers = [("h", b"1")] if number % 3 == 0 else []
            partition, offset = topic.append(value, key=key, timestamp=number, headers=headers)
            said = f"{offset}:{number}:{'-' if value is None else number}:{'h' if headers else ''}"
            told.setdefault((partition, key), []).append(said)
    found = ends(replay(spark, tmp_path / "told", Heard(), plan=plan, include_headers=True))
    assert {key: state.decode().split() for key, (_, state) in found.items()} == told


@pytest.mark.parametrize("plan", PLANS)
def test_it_stops_at_any_offset(spark: SparkSession, tmp_path: Path, plan: Any) -> None:
    instructions = lesson(100)
    with seglog.open(tmp_path / "lesson", SMALL) as log:
        for instruction in instructions:
            log.append(instruction, key=b"class")
    for stop in (0, 1, 37, 100):
        found = ends(replay(spark, tmp_path / "lesson", Classroom(), stop=stop, plan=plan))
        expected = {(0, b"class"): (stop - 1, by_hand(instructions[:stop]))} if stop else {}
        assert found == expected


@pytest.mark.parametrize("plan", PLANS)
def test_a_partition_can_be_one_machine_whatever_its_keys(spark: SparkSession, tmp_path: Path, plan: Any) -> None:
    instructions = lesson(50)
    with seglog.open(tmp_path / "lesson") as log:
        for number, instruction in enumerate(instructions):
            log.append(instruction, key=b"%d" % (number % 5))
    found = ends(replay(spark, tmp_path / "lesson", Classroom(), per="partition", plan=plan))
    assert found == {(0, None): (49, by_hand(instructions))}


@pytest.mark.parametrize("plan", PLANS)
def test_a_machine_that_raises_names_the_record(spark: SparkSession, tmp_path: Path, plan: Any) -> None:
    with Topic.create(tmp_path / "lesson", partitions=2) as topic:
        for instruction in (b"Add 1", b"Div 0", b"Add 1"):
            partition, _ = topic.append(instruction, key=b"class")
    with pytest.raises(Exception) as caught:
        replay(spark, tmp_path / "lesson", Classroom(), plan=plan).collect()
    assert f"Classroom rejected offset 1 of partition {partition} of topic 'lesson': ZeroDivisionError" in str(
        caught.value
    )


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("others", [0, 20])
def test_a_replay_that_waited_through_a_compaction_is_refused_not_short(
    spark: SparkSession, tmp_path: Path, plan: Any, others: int
) -> None:
    config = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(compact=True))
    with seglog.open(tmp_path / "log", config) as log:
        for number in range(others):
            log.append(b"Add 1", key=b"other %d" % number)
        log.append(b"Add 1", key=b"k")
        waiting = replay(spark, tmp_path / "log", Classroom(), plan=plan)
        accepted = replay(spark, tmp_path / "log", Classroom(), plan=plan, incomplete=True)
        log.append(b"Add 2", key=b"k")
        for number in range(40):
            log.append(b"Add 3", key=b"later number %d" % number)
        log.compact()
        with pytest.raises(Exception, match="OffsetCompacted"):
            waiting.collect()
        assert accepted.count() == others


def test_a_log_that_lost_records_is_replayed_only_when_that_is_accepted(spark: SparkSession, tmp_path: Path) -> None:
    with seglog.open(tmp_path / "gap") as log:
        log.append(b"Add 1")
        log.append_at(2, Record(2, 0, None, b"Add 1"))
    with seglog.open(
        tmp_path / "expired", seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=1024))
    ) as log:
        for _ in range(100):
            log.append(b"Add 1")
    for name, why in (("gap", "gaps in its offsets"), ("expired", "it begins at offset")):
        with pytest.raises(InvalidArgument, match=why):
            replay(spark, tmp_path / name, Classroom())
        assert replay(spark, tmp_path / name, Classroom(), incomplete=True).count() == 1


def test_what_is_no_machine_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    assert named_machine(CLASSROOM) == Classroom()
    for name in ("classroom", "seglog.nothing:Classroom", "seglog.spark.replay.classroom:Nothing", "seglog:open"):
        with pytest.raises(InvalidArgument):
            named_machine(name)
    with pytest.raises(InvalidArgument, match="it has no initial, no apply, no encode"):
        replay(spark, tmp_path, object())  # type: ignore[arg-type] # the mistake
    for mistake in ({"per": "topic"}, {"plan": "fast"}):
        with pytest.raises(InvalidArgument, match="it must be"):
            replay(spark, tmp_path, Classroom(), **mistake)


@pytest.mark.parametrize("per", ["key", "partition"])
def test_the_job_and_the_replay_without_spark_share_snapshots(spark: SparkSession, tmp_path: Path, per: Any) -> None:
    machine: Any = PerKey(Classroom()) if per == "key" else Classroom()
    states = tmp_path / "states"
    with Topic.create(tmp_path / "lesson", partitions=2, config=SMALL) as topic:
        for number, instruction in enumerate(lesson(200)):
            topic.append(instruction, key=b"%d" % (number % 7))
        first = seglog.replay(topic, machine, snapshots=states)
        for number, instruction in enumerate(lesson(100, seed=2)):
            topic.append(instruction, key=b"%d" % (number % 3))
        found = ends(replay(spark, tmp_path / "lesson", Classroom(), per=per, snapshots=states))
        assert found == ends(replay(spark, tmp_path / "lesson", Classroom(), per=per))
        last = seglog.replay(topic, machine, snapshots=states)
        assert (last.records, first.records) == (0, 200)
        assert last.partitions.keys() == {0, 1}
        for number, one in last.partitions.items():
            assert one.resumed_at == topic.partition(number).next_offset
            if per == "key":
                assert {key: str(at.state).encode() for key, at in one.state.items()} == {
                    key: state for (partition, key), (_, state) in found.items() if partition == number
                }
        middle = {number: one.next_offset for number, one in first.partitions.items()}
        stops = ends(
            replay(spark, tmp_path / "lesson", Classroom(), per=per, snapshots=states, stop={"lesson": middle})
        )
        assert stops == ends(replay(spark, tmp_path / "lesson", Classroom(), per=per, stop={"lesson": middle}))
    with pytest.raises(InvalidArgument, match="shuffle"):
        replay(spark, tmp_path / "lesson", Classroom(), plan="shuffle", snapshots=states)
    with pytest.raises(InvalidArgument, match="no decode"):
        replay(spark, tmp_path / "lesson", Heard(), snapshots=states)


def test_the_job_continues_from_a_snapshot_where_the_log_has_expired(spark: SparkSession, tmp_path: Path) -> None:
    kept = seglog.LogConfig(segment_bytes=2048, retention=seglog.Retention(bytes=8192))
    with seglog.open(tmp_path / "lesson", kept) as log:
        instructions = lesson(400)
        for instruction in instructions[:300]:
            log.append(instruction)
        seglog.replay(log, Classroom(), snapshots=tmp_path / "states")
        for instruction in instructions[300:]:
            log.append(instruction)
        log.expire()
        assert 0 < log.lowest_offset <= 300
        found = ends(replay(spark, tmp_path / "lesson", Classroom(), per="partition", snapshots=tmp_path / "states"))
        assert found == {(0, None): (399, by_hand(instructions))}
        with pytest.raises(InvalidArgument, match="earlier records are gone"):
            replay(spark, tmp_path / "lesson", Classroom())


def test_the_program_tells_the_state_and_the_record_that_was_refused(
    spark: SparkSession, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with seglog.open(tmp_path / "lesson") as log:
        log.append(b"Add 3")
        log.append(b"Div 5")
        log.append(b"Sing")
    assert program.main([str(tmp_path / "lesson"), "--machine", CLASSROOM, "--stop", "2"]) == 0
    assert b"key=None  offset=1  state=9" in capfdbinary.readouterr().out
    assert program.main([str(tmp_path / "lesson"), "--machine", CLASSROOM]) == 2
    error = capfdbinary.readouterr().err.decode()
    lines = [line for line in error.splitlines() if line.startswith("seglog: ")]
    assert len(lines) == 1
    assert "Classroom rejected offset 2 of partition 0 of topic 'lesson': ValueError" in lines[0]
    assert program.main([str(tmp_path / "lesson"), "--machine", "nothing:at_all"]) == 2


@pytest.mark.proof  # test_jobs_export.py starts a job as a process in each run
@pytest.mark.needs("java")
@pytest.mark.no_cover
def test_spark_submit_runs_it_with_a_machine_from_another_directory(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(
        "class Count:\n"
        "    def initial(self): return 0\n"
        "    def apply(self, state, record): return state + 1\n"
        "    def encode(self, state): return b'%d' % state\n"
    )
    with seglog.open(tmp_path / "log") as log:
        for number in range(20):
            log.append(b"v", key=b"%d" % (number % 2))
    binaries = Path(sys.executable).parent
    ran = subprocess.run(
        [
            str(binaries / "spark-submit"),
            *("--master", "local[2]", "--py-files", str(tmp_path / "rules.py")),
            str(program.__file__),
            *(str(tmp_path / "log"), "--machine", "rules:Count", "--json"),
        ],
        env={**os.environ, "JAVA_HOME": str(use_java()), "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert sorted(ran.stdout.splitlines()) == [
        b'{"topic": "log", "partition": 0, "key": "0", "offset": 18, "state": "10"}',
        b'{"topic": "log", "partition": 0, "key": "1", "offset": 19, "state": "10"}',
    ]
