"""The order in which each operation writes and syncs, as docs/format.md has it: a promise rests on every line.

No crash of a process shows that a sync is missing; only a power cut does. So the calls themselves are compared.
"""

from __future__ import annotations

import errno
from typing import Any

import pyarrow as pa
import pytest

import seglog
from seglog.storage import LocalStorage
from seglog.testing.faulty import WRITING, Fault, FaultyStorage

SMALL = seglog.LogConfig(segment_bytes=512)
PREVIOUS = ["unlink tmp/MANIFEST.prev", "link tmp/MANIFEST.prev", "rename MANIFEST.prev", "unlink tmp/MANIFEST.prev"]
FIRST_MANIFEST = ["create tmp/MANIFEST", "pwrite tmp/MANIFEST", "datasync tmp/MANIFEST"]
FIRST_MANIFEST += ["rename MANIFEST", "sync_directory"]
MANIFEST = [*FIRST_MANIFEST[:3], *PREVIOUS, *FIRST_MANIFEST[3:]]
ROLE = ["create tmp/ROLE", "pwrite tmp/ROLE", "datasync tmp/ROLE", "rename ROLE", "sync_directory"]


def new_store(name: str) -> list[str]:
    return [f"create {name}", f"pwrite {name}", f"datasync {name}", "sync_directory"]


class Writes:
    """A log, and what it wrote since last asked; lookups, which are derived and never synced, only on demand."""

    def __init__(self, path: Any) -> None:
        self.storage = FaultyStorage(LocalStorage(path))

    def take(self, *, lookups: bool = False) -> list[str]:
        derived = (".index", ".times", ".offsets")
        calls = [
            call for call in self.storage.calls if (call.operation, call.name) != ("write", "LOCK")
        ]  # who holds it
        written = [call for call in calls if call.operation in WRITING and (lookups or not call.name.endswith(derived))]
        self.storage.calls = []
        return [f"{call.operation} {call.name}".strip() for call in written]


@pytest.fixture
def writes(scene: Any) -> Writes:
    return Writes(scene.path)


FIRST = "00000000000000000000-1.store"


def test_create_syncs_store_and_directory_before_the_manifest_that_names_it(writes: Writes) -> None:
    seglog.open(writes.storage)
    assert writes.take() == ["make", "try_lock LOCK", *new_store(FIRST), *FIRST_MANIFEST]


def test_an_append_is_one_write_and_a_sync_is_one_sync_before_the_durable_count(writes: Writes) -> None:
    log = seglog.open(writes.storage)
    writes.take()
    log.append(b"one")
    assert writes.take(lookups=True) == [f"pwrite {FIRST}"]
    log.sync()
    first, *rest = writes.take(lookups=True)
    assert first == f"datasync {FIRST}"
    assert {call.split()[-1] for call in rest} == {FIRST.replace("store", "index")}
    log.sync()
    assert writes.take(lookups=True) == [], "nothing is left to sync"


def test_a_batch_and_a_stream_write_their_first_head_last(writes: Writes, scene: Any) -> None:
    log = seglog.open(writes.storage)
    writes.take()
    log.append_batch(pa.table({"value": [b"one", b"two"]}))
    assert writes.take() == [f"pwrite {FIRST}"] * 2
    log.append_stream([b"three"])
    assert writes.take() == [f"pwrite {FIRST}"] * 2


APPENDS = {
    "record": (lambda log: log.append(b"two"), [1]),
    "stream": (lambda log: log.append_stream([b"three"]), [1, 2]),
    "batch": (lambda log: log.append_batch(pa.table({"value": [b"four", b"five"]})), [1, 2]),
}


@pytest.mark.parametrize(("append", "at"), [(kind, at) for kind, (_, writes) in APPENDS.items() for at in writes])
def test_what_a_refused_append_left_is_cut_off_and_the_cut_is_on_the_disk_before_the_error_is_raised(
    writes: Writes, append: str, at: int
) -> None:
    log = seglog.open(writes.storage)
    log.append(b"one")
    writes.take()
    writes.storage.fault = Fault(operations=frozenset({"pwrite"}), at=at, error=errno.EIO, keep=1.0)
    with pytest.raises(seglog.StorageError):
        APPENDS[append][0](log)
    assert writes.take() == [f"pwrite {FIRST}"] * at + [f"truncate {FIRST}", f"datasync {FIRST}"]


def test_a_flush_policy_syncs_before_it_acknowledges(writes: Writes) -> None:
    log = seglog.open(writes.storage, seglog.LogConfig(flush_records=2))
    writes.take()
    log.append(b"one")
    assert writes.take() == [f"pwrite {FIRST}"]
    log.append(b"two")
    assert writes.take() == [f"pwrite {FIRST}", f"datasync {FIRST}"]


PREVIOUS = "pwrite MANIFEST.prev"
CHANGE = ["pwrite MANIFEST", "datasync MANIFEST", PREVIOUS]


def test_roll_syncs_the_old_store_then_the_new_one_then_the_manifest(writes: Writes) -> None:
    log = seglog.open(writes.storage, SMALL)
    log.append(b"x" * 400)
    writes.take()
    log.append(b"y" * 400)
    second = "00000000000000000001-2.store"
    assert writes.take() == [f"datasync {FIRST}", *new_store(second), *MANIFEST, PREVIOUS, f"pwrite {second}"]
    log.append(b"z" * 400)
    third = "00000000000000000002-3.store"
    assert writes.take() == [f"datasync {second}", *new_store(third), *CHANGE, f"pwrite {third}"]


def test_truncate_syncs_what_it_keeps_then_a_new_store_then_the_manifest_and_cuts_no_file(writes: Writes) -> None:
    log = seglog.open(writes.storage)
    for _ in range(3):
        log.append(b"x")
    writes.take()
    log.truncate(1)
    assert writes.take() == [f"datasync {FIRST}", *new_store("00000000000000000001-2.store"), *MANIFEST]


def test_expire_unlinks_after_the_manifest(writes: Writes) -> None:
    log = seglog.open(writes.storage, seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=0)))
    log.append(b"x" * 400)
    writes.take()
    log.append(b"y" * 400)
    calls = writes.take()
    assert calls[-len(CHANGE) - 2 :] == [*CHANGE, f"unlink {FIRST}", "pwrite 00000000000000000001-2.store"]


def test_close_syncs(writes: Writes) -> None:
    log = seglog.open(writes.storage)
    log.append(b"x")
    writes.take()
    log.close()
    assert writes.take() == [f"datasync {FIRST}"]


def test_recovery_writes_what_it_accepts_again_keeps_a_tear_before_it_cuts_it_and_begins_an_epoch(
    scene: Any, writes: Writes
) -> None:
    scene.fill_and_crash([b"one"], [b"two"])
    with scene.file().open("ab") as store:
        store.write(b"torn")
    position = scene.file().stat().st_size - 4
    seglog.open(writes.storage)
    torn = f"{FIRST}.{position}.torn"
    accept = ["make", "try_lock LOCK", "sync_directory", f"pwrite {FIRST}", f"datasync {FIRST}"]
    keep = [f"create tmp/{torn}", f"pwrite tmp/{torn}", f"datasync tmp/{torn}", f"rename {torn}", "sync_directory"]
    assert writes.take() == [*accept, *keep, f"truncate {FIRST}", f"datasync {FIRST}", *MANIFEST]


def test_a_log_that_was_closed_is_opened_without_a_write_but_the_name_of_its_manifest_is_synced(
    scene: Any, writes: Writes
) -> None:
    scene.fill([b"one", b"two"])
    seglog.open(writes.storage)
    assert writes.take(lookups=True) == ["make", "try_lock LOCK", "sync_directory"]


def test_a_fence_syncs_what_was_appended_before_it_is_installed(writes: Writes) -> None:
    log = seglog.open(writes.storage)
    log.append(b"x")
    writes.take()
    log.fence(1)
    assert writes.take() == [f"datasync {FIRST}", *ROLE, *MANIFEST]
