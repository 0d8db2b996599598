"""The combined proof: one leader, two followers and one archive, while everything fails.

    python -m tests.replication.chaos --minutes 10 [--store moto] [--seed 1]

Producers append over HTTP: batches, and records that wait for the archive or for both copies. Meanwhile processes are
killed with SIGKILL or paused, networks are cut, partitions are truncated, disks are lost and restored from the archive.
At the end, and after every change of the leader, nothing that was acknowledged may be missing, and the copies equal the
leader.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import seglog
from seglog import LogConfig, Mirror
from seglog.errors import InvalidArgument, InvalidType, SeglogError
from seglog.replication.diff import diff
from seglog.topic.repair.verify import verify_place
from tests.proofs import tell
from tests.replication.ledger import Ledger
from tests.replication.proxy import CuttingProxy
from tests.replication.world import BUCKET, Follower, Leader, ObjectServer, versitygw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seglog.client.models import Ack

TOPIC = "orders"
PARTITIONS = 2
CONFIG = LogConfig(segment_bytes=64 * 1024)
BATCH = 500


class Chaos:
    """Everything that runs, and what must hold of it."""

    def __init__(self, place: Path, store: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.archived = [Ledger() for _ in range(PARTITIONS)]
        self.mirrored = [Ledger() for _ in range(PARTITIONS)]
        self._place = place
        self._roots = 0
        self._resources = ExitStack()
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self.server = ObjectServer(store, place / "bucket")
        self._resources.callback(self.server.close)
        self.store_network = self._proxy(self.server.port)
        self._set_environment("secret" if store == "versitygw" else "test")
        self.archive = f"s3://{BUCKET}/chaos"
        self.leader = Leader(self._new_root(), self.archive)
        self._resources.callback(lambda: self.leader.kill())  # noqa: PLW0108 - the leader changes
        self.network = self._proxy(self.leader.port)
        with self.client() as client:
            topic = client.create_topic(TOPIC, partitions=PARTITIONS, config=CONFIG)
            topic.append(b"the first one", ack="archived")
        self.by_path, self.over_http = Follower(place / "by-path"), Follower(place / "over-http")
        for one in (self.by_path, self.over_http):
            self._resources.callback(one.stop)
        self._follow()

    def _proxy(self, port: int) -> CuttingProxy:
        proxy = CuttingProxy(port)
        self._resources.callback(proxy.close)
        return proxy

    def _set_environment(self, secret: str) -> None:
        before = dict(os.environ)
        self._resources.callback(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.update(
            AWS_ENDPOINT_URL=self.store_network.url,
            AWS_ACCESS_KEY_ID="test",
            AWS_SECRET_ACCESS_KEY=secret,
            AWS_REGION="us-east-1",
        )

    def _new_root(self) -> Path:
        self._roots += 1
        return self._place / f"leader-{self._roots}"

    def _follow(self, *options: str) -> None:
        self.by_path.follow(str(self.leader.root), *options)
        self.over_http.follow(self.network.url, *options)

    @property
    def followers(self) -> tuple[Follower, Follower]:
        return self.by_path, self.over_http

    def client(self, url: str | None = None) -> seglog.Client:
        """Return a client of the leader, directly."""
        return seglog.Client(url or self.leader.url, timeout=10, retries=0)

    # --- the load -------------------------------------------------------------------------------------------------

    @contextmanager
    def load(self) -> Iterator[None]:
        """Append from several threads, through the network that is cut."""
        work: list[tuple[Any, ...]] = [(self._append_batches,)]
        work += [(self._append_one, "archived", one) for one in range(2 * PARTITIONS)]
        work += [(self._append_one, "mirrored", one) for one in range(PARTITIONS)]
        made = [threading.Thread(target=self._work, args=args) for args in work]
        for thread in made:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in made:
                thread.join()
        if self._failure is not None:
            raise self._failure

    def _work(self, append: Callable[..., None], *about: int) -> None:
        try:
            with seglog.Client(self.network.url, timeout=10, retries=1) as client:
                while not self._stop.is_set():
                    try:
                        append(client.topic(TOPIC), *about)
                    except (InvalidArgument, InvalidType):
                        raise
                    except SeglogError:
                        self._stop.wait(0.05)
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._failure = error

    def _append_batches(self, topic: seglog.client.RemoteTopic) -> None:
        number = self.counts["appended"]
        values = [b"batch %d" % (number + one) for one in range(BATCH)]
        keys = [b"%d" % (one % 50) for one in range(BATCH)]
        topic.append_batch(pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}))
        self.counts["appended"] += BATCH
        self._stop.wait(0.01)

    def _append_one(self, topic: seglog.client.RemoteTopic, ack: Ack, thread: int) -> None:
        partition = thread % PARTITIONS
        ledger = (self.archived if ack == "archived" else self.mirrored)[partition]
        self.counts[f"sent {ack} {thread}"] += 1
        value = b"%s %d %d" % (ack.encode(), thread, self.counts[f"sent {ack} {thread}"])
        token = ledger.begin()
        _, offset = topic.append(value, partition=partition, ack=ack, copies=len(self.followers), wait=5)
        ledger.acknowledge(token, offset, value)

    # --- what happens ---------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let things happen for some time, and each kind of change of the leader at least once."""
        events: list[tuple[int, Callable[[], None]]] = [
            (6, self.cut_network),
            (4, self.cut_store),
            (6, self.kill_follower),
            (6, self.kill_leader),
            (3 if self.server.survives else 0, self.kill_store),
            (6, self.truncate),
            (2, self.pause_leader),
            (1, self.lose_disk),
            (1, self.promote),
        ]
        for change in (self.lose_disk, self.pause_and_promote):
            self._stop.wait(1)
            change()
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and self._failure is None:
            happens = self.chance.choices([one for _, one in events], [weight for weight, _ in events])[0]
            happens()
            for one in self.followers:
                one.look()
            self._stop.wait(self.chance.uniform(0.1, 0.8))

    def cut_network(self) -> None:
        self._cut(self.network)

    def cut_store(self) -> None:
        self._cut(self.store_network)

    def _cut(self, network: CuttingProxy) -> None:
        self.counts["cuts"] += 1
        if self.chance.random() < 0.5:
            network.blocked.set()
            network.cut()
            time.sleep(self.chance.uniform(0.1, 1.0))  # how long it is cut: the input of this proof
            network.blocked.clear()
        else:
            network.cut()

    def kill_follower(self) -> None:
        self.counts["kills"] += 1
        self.chance.choice(self.followers).kill()

    def kill_leader(self) -> None:
        self.counts["kills"] += 1
        self.leader.kill()
        self._started(self.leader.start)

    def _started(self, start: Callable[[], None]) -> None:
        """Start a leader; it needs its archive, so it may have to be started again."""
        for _ in range(20):
            try:
                start()
            except AssertionError:
                self.leader.process.wait()
                self.counts["failed starts"] += 1
                time.sleep(0.2)
            else:
                return
        raise AssertionError("the leader does not start: " + "".join(self.leader.said[-5:]))

    def kill_store(self) -> None:
        self.counts["kills"] += 1
        self.server.kill()
        self.server.start()

    def pause_leader(self) -> None:
        self.counts["pauses"] += 1
        self.leader.pause()
        time.sleep(self.chance.uniform(0.2, 2.0))  # how long it is paused: the input of this proof
        self.leader.go_on()

    def truncate(self) -> None:
        number = self.chance.randrange(PARTITIONS)
        with suppress(SeglogError), self.client() as client:
            bounds = client.topic(TOPIC).bounds()[number]
            back = self.chance.choice((1, 10, 100, 3000))
            offset = max(bounds.next_offset - self.chance.randrange(1, back + 1), bounds.lowest_offset)
            ledgers = self.archived[number], self.mirrored[number]
            for ledger in ledgers:
                ledger.cut(offset)
            try:
                client.topic(TOPIC).truncate(number, offset)
                self.counts["truncates"] += 1
            finally:
                for ledger in ledgers:
                    ledger.cut(offset)

    def lose_disk(self) -> None:
        """The leader and its disk are lost: restore from the archive, which need not have what was only mirrored."""
        self.counts["lost disks"] += 1
        self.leader.kill()
        for ledger in self.mirrored:
            ledger.cut(0)
        old = self.leader.root
        root = self._new_root()
        self._restore(root)
        self._check("archived", self.archived, root)
        self._started(lambda: self._lead(root))
        self._follow()
        shutil.rmtree(old)

    def pause_and_promote(self) -> None:
        self.promote(paused=True)

    def promote(self, *, paused: bool | None = None) -> None:
        """The leader is killed, or paused and wakes up later: a copy takes over, with the archive."""
        self._await_copies()
        self.counts["promotions"] += 1
        old, is_paused = self.leader, self.chance.random() < 0.5 if paused is None else paused
        old.pause() if is_paused else old.kill()
        for one in self.followers:
            one.stop()
        copy = self._furthest()
        if copy is None:
            self.counts["promotions"] -= 1  # no copy has come so far since the last change of the leader
            old.go_on() if is_paused else self._started(old.start)
            self._follow()
            return
        self._command("promote", str(copy.target), "--archive", self.archive, "--wait", "30s")
        self._check("archived", self.archived, copy.target)
        self._check("mirrored", self.mirrored, copy.target)
        root = self._new_root()
        copy.target.rename(root)
        self._started(lambda: self._lead(root))
        if is_paused:
            self._wake(old)
            old.kill()
        old.root.rename(copy.target)  # it becomes a copy
        self._follow("--restart")

    def _await_copies(self) -> None:
        """Return once both copies have something new, or after some time."""
        before = self._mirrored()
        ends = time.monotonic() + 20
        while self._mirrored() == before and time.monotonic() < ends and self._failure is None:
            for one in self.followers:
                one.look()
            self._stop.wait(0.1)

    def _mirrored(self) -> int:
        return sum(ledger.acknowledged for ledger in self.mirrored)

    def _furthest(self) -> Follower | None:
        """Return the copy with the highest next offsets, as an operator chooses it."""
        ends: dict[Follower, list[int]] = {}
        for one in self.followers:
            with suppress(SeglogError):
                ends[one] = [next_offset(one.target, number) for number in range(PARTITIONS)]
        if len(ends) < len(self.followers):
            return None
        best = [max(column) for column in zip(*ends.values(), strict=True)]
        return self.chance.choice([one for one, found in ends.items() if found == best] or [None])

    def _wake(self, old: Leader) -> None:
        """Let an old leader go on, and check that it accepts nothing once it can know of the new one."""
        old.go_on()
        with self.client(old.url) as client:
            topic = client.topic(TOPIC)
            for number in range(PARTITIONS):
                for ack in ("archived", "durable", "appended"):
                    self.counts["sent to fenced leaders"] += 1
                    try:
                        topic.append(b"by a fenced leader", partition=number, ack=ack)
                    except SeglogError:
                        continue
                    self.counts["accepted by fenced leaders"] += 1
        assert not self.counts["accepted by fenced leaders"]

    def _command(self, *words: str) -> None:
        for left in reversed(range(10)):
            done = subprocess.run([sys.executable, "-m", "seglog", *words], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return
            assert left, done.stderr

    def _restore(self, root: Path) -> None:
        for _ in range(10):
            with suppress(seglog.StorageError):
                seglog.restore(self.archive, root)
                return
        seglog.restore(self.archive, root)

    def _lead(self, root: Path) -> None:
        self.leader = Leader(root, self.archive)
        self.network.target = self.leader.port
        self.network.cut()

    # --- what must hold -------------------------------------------------------------------------------------------

    def _check(self, what: str, ledgers: list[Ledger], root: Path) -> None:
        for number, ledger in enumerate(ledgers):
            missing = ledger.missing(values_of(root, number))
            assert not missing, f"partition {number}: {what} records are missing: {missing[:5]} of {len(missing)}"

    def check(self) -> int:
        """Check everything, at rest; return the number of compared records."""
        with self.client() as client:
            for number in range(PARTITIONS):
                client.topic(TOPIC).append(b"the last one", partition=number, ack="archived")
        for one in self.followers:
            one.stop()
            source = str(self.leader.root) if one is self.by_path else self.network.url
            self._catch_up(source, one)
        restored = self._new_root()
        self._restore(restored)
        self._check("archived", self.archived, restored)
        for place in (self.leader.root, *[one.target for one in self.followers]):
            self._check("archived", self.archived, place)
            self._check("mirrored", self.mirrored, place)
        records = 0
        for copy in (self.by_path.target, self.over_http.target, restored):
            report = diff(self.leader.url, copy)
            assert report.same, report.differences
            assert not report.behind, report.behind
            assert verify_place(copy).ok
            records += report.records
        return records

    def _catch_up(self, source: str, one: Follower) -> None:
        for restart in (False, True):
            try:
                with Mirror(source, one.target, restart=restart) as mirror:
                    while mirror.step():
                        pass
            except seglog.CopyStopped:
                one.restarts += 1
            else:
                return

    def report(self, records: int) -> dict[str, int]:
        """Return the counts."""
        named = {name.replace(" ", "_"): self.counts[name] for name in ("kills", "pauses", "cuts", "truncates")}
        return named | {
            "lost_disks": self.counts["lost disks"],
            "promotions": self.counts["promotions"],
            "sent_to_fenced_leaders": self.counts["sent to fenced leaders"],
            "accepted_by_fenced_leaders": self.counts["accepted by fenced leaders"],
            "restarted_copies": sum(one.restarts for one in self.followers),
            "appended": self.counts["appended"],
            "archived": sum(ledger.acknowledged for ledger in self.archived),
            "mirrored": self._mirrored(),
            "acknowledged_missing": 0,
            "compared": records,
            "differences": 0,
        }

    def close(self) -> None:
        self._resources.close()


def values_of(root: Path, number: int) -> dict[int, bytes]:
    """Return the values of a partition by offset."""
    with seglog.open(root / TOPIC / str(number), mode="r") as log:
        return {record.offset: record.value or b"" for record in log.scan()}


def next_offset(root: Path, number: int) -> int:
    """Return the next offset of a partition."""
    with seglog.open(root / TOPIC / str(number), mode="r") as log:
        return log.next_offset


def run(place: Path, store: str, seconds: float, seed: int) -> dict[str, int]:
    """Run the proof; return its counts. AssertionError if anything is missing or differs."""
    chaos = Chaos(place, store, seed)
    try:
        with chaos.load():
            chaos.run(seconds)
        return chaos.report(chaos.check())
    finally:
        chaos.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.replication.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--store", choices=("moto", "versitygw"), default="versitygw" if versitygw() else "moto")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="seglog-chaos-") as directory:
        counts = run(Path(directory), args.store, args.minutes * 60, args.seed)
    tell("long: leader, two followers and an archive", store=args.store, **counts)
    print(f"{args.minutes:g} minutes on {args.store}, seed {args.seed}: {counts}", file=sys.stderr)


if __name__ == "__main__":
    main()
