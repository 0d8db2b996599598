"""kill -9 of real writers, again and again, at whatever they happen to do; their parent keeps the ledger.

The log is checked by its real opening after each kill, readers in other processes follow through all of it. What may be
done at once is in programs/log_writer.py and programs/broker_writer.py, what must be there in programs/ledger.py.
"""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import Broker, LogConfig
from tests.crash.programs.broker_ledger import BrokerLedger
from tests.crash.programs.broker_writer import KEYS, PARTITIONS, TOPIC
from tests.crash.programs.ledger import Ledger
from tests.crash.programs.log_reader import Reader
from tests.crash.programs.log_writer import config_of
from tests.crash.programs.tokens import table_of
from tests.crash.programs.zygote import Child, Zygote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from seglog import Topic
    from tests.proofs import Tell

CYCLES = 25
RARE = ("truncate", "publish", "compact", "compress", "alter", "large_batch", "batch", "open", "beside")

pytestmark = pytest.mark.timeout(600)
FEW = 3


def draw_round(draw: random.Random, path: Path) -> dict[str, Any]:
    """Return what a round's log is like."""
    keys = draw.choice([0, 7, 40])
    return {
        "path": str(path),
        "keys": keys,
        "segment_bytes": draw.choice([2048, 4096, 16384, 131072]),
        "flush_records": draw.choice([None, 1, 5]),
        "delete_retention": draw.choice([0, 3600]),
        "dedupe_bytes": draw.choice([1024, 2**20]),
        "allocate_bytes": draw.choice([0, 500, 2**16]),
    }


class Moment:
    """When a writer is killed: some microseconds after one of its lines, any line or that of a rare operation."""

    def __init__(self, draw: random.Random, rare: Iterable[str], most: int = 120) -> None:
        self.lines = draw.randint(1, most)
        self.awaited = draw.choice([None, None, *rare])
        self.most = 3 * most
        self.seconds = draw.choice([0, 1e-6 * 10 ** draw.uniform(0, 3.7)])

    def has_come(self, line: dict[str, Any]) -> bool:
        """Whether it is that line. To be asked of each once."""
        self.lines -= 1
        self.most -= 1
        awaited = self.awaited is None or line.get("do") == self.awaited or self.awaited in line
        return self.most < 0 or (self.lines < 0 and awaited)


def kill_at(child: Child, moment: Moment, hear: Any) -> None:
    """Listen to a child, kill it at the moment, and hear what it still said; then it is gone with its locks."""
    killed = False
    for line in child.lines():
        hear(line)
        if not killed and moment.has_come(line):
            time.sleep(moment.seconds)  # the moment itself: nothing is waited for
            child.kill()
            killed = True
    assert killed, child.ending()
    assert child.reap() == -signal.SIGKILL


class LogRound:
    """One log, two readers, and writers that are killed one after the other."""

    def __init__(self, seed: int, root: Path, zygote: Zygote) -> None:
        self.draw = random.Random(seed)
        self.zygote = zygote
        self.request = draw_round(self.draw, root / f"log-{seed}")
        self.path = self.request["path"]
        self.ledger = Ledger(
            keys=self.request["keys"],
            segment_bytes=self.request["segment_bytes"],
            keeps_tombstones=self.request["delete_retention"] > 0,
        )
        self.kills = self.refused = self.opening_kills = self.reader_checks = 0
        seglog.open(self.path, config_of(self.request)).close()
        self.readers = [self._reader(expose) for expose in ("appended", "durable")]

    def _reader(self, expose: str) -> Child:
        reader = self.zygote.child(
            "log_reader", seed=self.draw.random(), path=self.path, keys=self.request["keys"], expose=expose
        )
        assert reader.line()["checks"] == 0
        return reader

    def cycle(self) -> None:
        """Let a writer write, kill it, kill some that recover what it left, and look at what is there."""
        hold = self.draw.random() < 0.3
        request = self.request | {"seed": self.draw.random(), "token": self.ledger.token, "batch": self.ledger.batch}
        writer = self.zygote.child("log_writer", **request, hold=hold)
        self._kill(writer, Moment(self.draw, RARE))
        while self.draw.random() < 0.3:
            self._kill_while_opening()
        with seglog.open(self.path) as log:
            self.digest = self.ledger.settle(log)
            self._look_through_readers(log)

    def _kill(self, writer: Child, moment: Moment) -> None:
        def hear(line: dict[str, Any]) -> None:
            if "held" in line:
                self._try_to_write_as_well()
                writer.say("go on")
            self.ledger.hear(line)

        kill_at(writer, moment, hear)
        self.zygote.forget(writer)
        self.kills += 1

    def _try_to_write_as_well(self) -> None:
        with pytest.raises(seglog.LogLocked):
            seglog.open(self.path)
        self.refused += 1

    def _kill_while_opening(self) -> None:
        opener = self.zygote.child("log_opener", path=self.path)
        moment = Moment(self.draw, ())
        moment.lines = 0
        moment.seconds = 1e-6 * 10 ** self.draw.uniform(0, 4)
        opened: list[str] = []
        kill_at(opener, moment, opened.extend)
        self.opening_kills += "did" not in opened
        self.zygote.forget(opener)
        self.kills += 1

    def _look_through_readers(self, log: seglog.Log) -> None:
        """Both readers have lived on, and see what the log holds: all of it is durable by now."""
        self.reader_checks = 0
        for reader in self.readers:
            seen = reader.answer("caught up")
            assert (seen["next"], seen["digest"]) == (log.next_offset, self.digest), "a reader sees another log"
            assert seen["truncated"] <= self.ledger.counts["truncates"], "a reader was told of a cut that was none"
            assert seen["overtaken"] == 0 or not self.request["keys"], "a reader was overtaken where nothing expires"
            self.reader_checks += seen["checks"]

    def counts(self) -> dict[str, int]:
        """Return what was counted; every loss and every invention has raised by now."""
        return {
            "kills": self.kills,
            "kills_in_recovery": self.opening_kills,
            **self.ledger.counts,
            "lost": 0,
            "invented": 0,
            "second_writers_refused": self.refused,
            "reader_checks": self.reader_checks,
        }


class BrokerRound:
    """One broker with a topic of partitions, two readers of partitions, and processes killed one after the other."""

    def __init__(self, seed: int, root: Path, zygote: Zygote) -> None:
        self.draw = random.Random(seed)
        self.zygote = zygote
        self.path = str(root / f"broker-{seed}")
        self.ledger = BrokerLedger()
        self.kills = self.refused = self.reader_checks = 0
        with Broker(self.path) as broker:
            broker.create_topic(TOPIC, partitions=PARTITIONS, config=LogConfig(segment_bytes=4096))
        self.readers = [
            zygote.child(
                "log_reader", seed=self.draw.random(), path=f"{self.path}/{TOPIC}/{number}", keys=KEYS, expose=expose
            )
            for number, expose in enumerate(("appended", "durable"))
        ]
        for reader in self.readers:
            assert reader.line()["checks"] == 0

    def cycle(self) -> None:
        """Let a process write, kill it, and look at what is there."""
        writer = self.zygote.child(
            "broker_writer", path=self.path, seed=self.draw.random(), token=self.ledger.token, batch=self.ledger.batch
        )
        kill_at(writer, Moment(self.draw, ("publish", "once", "commit", "nothing"), most=50), self.ledger.hear)
        self.zygote.forget(writer)
        self.kills += 1
        with Broker(self.path) as broker:
            with pytest.raises(seglog.LogLocked):
                Broker(self.path)
            self.refused += 1
            self.ledger.settle(broker)
            self._look_through_readers(broker.topic(TOPIC))

    def _look_through_readers(self, topic: Topic) -> None:
        topic.sync()
        self.reader_checks = 0
        for number, reader in enumerate(self.readers):
            seen = reader.answer("caught up")
            assert seen["next"] == topic.partition(number).next_offset
            assert seen["truncated"] == seen["overtaken"] == 0
            self.reader_checks += seen["checks"]

    def counts(self) -> dict[str, int]:
        """Return what was counted."""
        return {
            "kills": self.kills,
            **self.ledger.counts,
            "lost": 0,
            "invented": 0,
            "second_writers_refused": self.refused,
            "reader_checks": self.reader_checks,
        }


def run_round(kind: type[LogRound] | type[BrokerRound], seed: int, root: Path, kills: int = CYCLES) -> dict[str, int]:
    """Kill writers of one log, or of one broker, so many times; return the counts."""
    with Zygote() as zygote:
        one = kind(seed, root, zygote)
        try:
            for _ in range(kills):
                one.cycle()
        except BaseException as error:
            error.add_note(f"{kind.__name__} with seed {seed}, after {one.kills} kills; what is left is in {one.path}")
            raise
        return one.counts()


def one_round(seed: int, root: Path) -> dict[str, int]:
    """Kill writers CYCLES times, those of a broker in every fourth round; return the counts."""
    return run_round(BrokerRound if seed % 4 == 3 else LogRound, seed, root)


def test_what_ended_a_reader_is_in_the_message(tmp_path: Path) -> None:
    seglog.open(tmp_path / "log").close()
    request = {"seed": 0, "keys": 0, "expose": "appended"}
    with Zygote() as zygote:
        raised = zygote.child("log_reader", path=str(tmp_path / "none"), **request)
        with pytest.raises(AssertionError, match=r"(?s)log_reader, process .*LogNotFound"):
            raised.line()
        with pytest.raises(AssertionError, match="LogNotFound"):
            raised.say("caught up")
        crashed = zygote.child("log_reader", path=str(tmp_path / "log"), **request)
        crashed.line()
        os.kill(crashed.pid, signal.SIGSEGV)
        crashed.reap()
        with pytest.raises(AssertionError, match=r"(?s)ended with -11: .*log_reader\.py"):
            crashed.answer("caught up")


@pytest.mark.parametrize(("look", "offsets"), [(Reader._read, (7,)), (Reader._read_range, (7, 9))])
@pytest.mark.parametrize("expose", ["appended", "durable"])
def test_a_reader_that_looks_again_at_what_was_replaced_meanwhile_goes_on(
    tmp_path: Path, expose: str, look: Callable[..., None], offsets: tuple[int, ...]
) -> None:
    with seglog.open(tmp_path) as log:
        log.append_batch(table_of(range(10), 0))
        log.sync()
        reader = Reader({"seed": 0, "keys": 0, "path": str(tmp_path), "expose": expose})
        assert reader.poll()
        log.truncate(5)
        log.append_batch(table_of(range(10, 20), 0))
        look(reader, *offsets)
    assert reader.counts["truncated"] == 1


def rounds(count: int) -> pytest.MarkDecorator:
    """Run a test with a few kills, and as proofs with many, whose seeds differ."""
    many = [pytest.param(seed, CYCLES, marks=pytest.mark.proof) for seed in range(count)]
    return pytest.mark.parametrize(("seed", "kills"), [pytest.param(0, FEW), *many])


@rounds(3)  # `make deep` runs many more
def test_kill_9_of_a_writer_loses_nothing_and_invents_nothing(
    tmp_path: Path, seed: int, kills: int, tell: Tell
) -> None:
    tell("kill -9", scenario=f"a log, round {seed}", **run_round(LogRound, seed, tmp_path, kills))


@rounds(2)
def test_kill_9_of_a_broker_loses_nothing_and_stores_what_is_repeated_once(
    tmp_path: Path, seed: int, kills: int, tell: Tell
) -> None:
    tell("kill -9", scenario=f"a broker, round {seed}", **run_round(BrokerRound, seed, tmp_path, kills))
