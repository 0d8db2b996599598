"""Leadership by lease: one leader at a time, the next one after it ends, and a late one notices."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from seglog import ArchiveFenced, LogLocked
from seglog.archive.leading import Leading
from seglog.archive.lease import ObjectLease
from seglog.archive.urls import store_at
from tests.waiting import HANG_SECONDS

pytestmark = pytest.mark.xdist_group("s3")


class Time:
    """A monotonic clock that moves when a process sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def lease_of(url: str, holder: str, time: Time) -> ObjectLease:
    return ObjectLease(url, holder=holder, ttl=10, monotonic=time, sleep=time.sleep)


def test_of_racing_processes_one_becomes_the_leader(url: str) -> None:
    leases = [lease_of(url, str(number), Time()) for number in range(4)]

    def tries(lease: ObjectLease) -> bool:
        try:
            return lease.acquire(wait=0) > 0
        except LogLocked:
            return False

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(tries, leases)).count(True) == 1


def test_the_next_one_waits_for_the_time_to_live_and_the_late_leader_notices(place: str) -> None:
    first, second, time = lease_of(place, "first", Time()), Time(), Time()
    term = first.acquire()
    first.renew()
    with pytest.raises(LogLocked, match="first holds the lease"):
        lease_of(place, "second", second).acquire(wait=9)
    waiting = lease_of(place, "second", time)
    assert waiting.acquire() > term
    assert time.now >= 10
    with pytest.raises(ArchiveFenced):
        first.renew()
    waiting.renew()
    first.release()
    waiting.renew()


def test_a_leader_that_renews_is_not_replaced(place: str) -> None:
    time = Time()
    first = lease_of(place, "first", time)
    first.acquire()

    class Renewing(Time):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            first.renew()

    with pytest.raises(LogLocked):
        lease_of(place, "second", Renewing()).acquire(wait=100)
    assert len(list(store_at(place).keys("leases/"))) <= 20


def test_after_a_release_the_next_one_does_not_wait(place: str) -> None:
    with lease_of(place, "first", Time()):
        pass
    time = Time()
    lease_of(place, "second", time).acquire()
    assert time.now == 0


def test_a_leader_paused_until_its_number_was_deleted_notices(place: str) -> None:
    paused = lease_of(place, "paused", Time())
    paused.acquire()
    active = lease_of(place, "active", Time())
    active.acquire()
    for _ in range(20):
        active.renew()
    with pytest.raises(ArchiveFenced):
        paused.renew()
    active.renew()


class _Fenced:
    """A lease that another process takes once `taken` is set."""

    def __init__(self) -> None:
        self.taken = threading.Event()

    def renew(self) -> None:
        self.taken.wait(HANG_SECONDS)
        raise ArchiveFenced("another process is the leader")

    def release(self) -> None:
        pass


class _LosesAtOnce:
    """A guard: as soon as the first thread has left it, the lease is lost, and the thread that noticed has ended."""

    def __init__(self, leading: Leading, lease: _Fenced) -> None:
        self._guard, self._leading, self._lease = threading.Lock(), leading, lease

    def __enter__(self) -> None:
        self._guard.acquire()

    def __exit__(self, *_: object) -> None:
        self._guard.release()
        if threading.current_thread() is not self._leading._thread:
            self._lease.taken.set()
            self._leading._thread.join(HANG_SECONDS)


def test_who_registers_at_the_moment_of_the_loss_is_called_once() -> None:
    lease = _Fenced()
    calls: list[ArchiveFenced] = []
    with Leading(lease, ttl=0.003) as leading:  # type: ignore[arg-type] # only what it uses
        leading._guard = _LosesAtOnce(leading, lease)  # type: ignore[assignment]
        leading.when_lost(calls.append)
        leading.when_lost(calls.append)
        assert len(calls) == 2
        assert leading.failure is calls[0]
