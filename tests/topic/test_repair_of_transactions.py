"""Looking after the files of transactions: what is damaged, what is restored, and what is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from seglog.errors import FormatVersionError
from seglog.storage import LocalStorage, Subdirectory
from seglog.testing.crash_states import moments
from seglog.testing.disk import Disk
from seglog.testing.disk_storage import DiskStorage
from seglog.testing.faulty import Crashed, Fault, FaultyStorage
from seglog.topic.broker import Broker, transactions_of
from seglog.topic.repair import repair_place, verify_place
from seglog.topic.transactions.frames import HEAD, Kind, encode
from seglog.topic.transactions.journal import Batch, Journal

if TYPE_CHECKING:
    from pathlib import Path

NEW = {"a": [b"value a0", b"value a1"], "b": [b"value b0", b"value b1", b"value b2"]}
NOTHING: dict[str, list[bytes]] = {"a": [], "b": []}


def prepared(storage: Any) -> None:
    with Broker(storage) as broker:
        for name in NEW:
            broker.create_topic(name)


def staged(broker: Broker) -> Journal:
    """Begin a transaction with records of both topics and an offset of a group."""
    journal = transactions_of(broker).begin({"id": "billing"})
    for name, values in NEW.items():
        batch = Batch(name, broker.topic(name).id, 0, f"x {name}", len(values), {})
        transactions_of(broker).stage(journal, batch, pa.record_batch({"value": pa.array(values)}))
    transactions_of(broker).stage_offsets(journal, "g", {("a", 0): (0, "")})
    return journal


def decided(storage: Any) -> str:
    """Leave a transaction that is committed and not published; return the name of its file."""
    with Broker(storage) as broker:
        journal = staged(broker)
        transactions_of(broker).decide(journal)
        return journal.name


@pytest.fixture
def root(tmp_path: Path) -> Path:
    prepared(tmp_path / "root")
    return tmp_path / "root"


def values(broker: Broker) -> dict[str, list[bytes]]:
    return {name: [record.value or b"" for record in broker.topic(name).partition(0).scan()] for name in NEW}


def flip(path: Path, *places: int) -> bytes:
    """Change one bit at each place; return the bytes that are there then."""
    data = bytearray(path.read_bytes())
    for place in places:
        data[place] ^= 4
    path.write_bytes(data)
    return bytes(data)


def actions(root: Any) -> list[str]:
    return [action.kind for action in repair_place(root).actions]


# --- what is sound ----------------------------------------------------------------------------------------------------


def test_open_and_published_transactions_are_sound_and_a_committed_one_is_named(root: Path) -> None:
    with Broker(root) as broker:
        open_one, published = staged(broker), staged(broker)
        transactions_of(broker).decide(published)
        transactions_of(broker).publish(published)
        published.note_published()
        told = verify_place(root)
        assert (told.ok, told.transactions and told.transactions.unfinished) == (True, ())
        name = decided_beside(broker)
    told = verify_place(root)
    assert told.ok
    assert told.transactions is not None
    [text] = told.transactions.unfinished
    assert text.startswith(f"{root}/.transactions/{name}: the transaction of 'billing', with 5 records (2 of a/0, 3 of")
    assert repair_place(root).actions == []
    assert {one.name for one in (root / ".transactions").iterdir()} == {open_one.name, published.name, name}


def decided_beside(broker: Broker) -> str:
    journal = staged(broker)
    transactions_of(broker).decide(journal)
    return journal.name


def test_a_frame_that_a_kill_has_cut_is_no_damage(root: Path) -> None:
    with Broker(root) as broker:
        journal = staged(broker)
    path = root / ".transactions" / journal.name
    path.write_bytes(path.read_bytes()[:-5])
    assert verify_place(root).ok
    with Broker(root) as broker:
        [[left], _] = transactions_of(broker).take_over()
        assert (len(left.batches), left.offsets) == (2, {})


def test_a_file_of_a_newer_version_is_an_error_not_damage(root: Path) -> None:
    name = decided(root)
    newer = encode(Kind.BEGIN, {"format": 2, "boot": "", "about": {}})
    (root / ".transactions" / name).write_bytes(b"".join(map(bytes, newer)))
    told = verify_place(root)
    assert (told.problems, [type(error) for error in told.errors]) == ([], [FormatVersionError])


# --- what can be restored ---------------------------------------------------------------------------------------------


def test_any_flipped_bit_of_a_committed_transaction_is_reported_and_restored(root: Path) -> None:
    name = decided(root)
    path = root / ".transactions" / name
    sound = path.read_bytes()
    for place in [0, 4, 9, 40, *range(400, len(sound), 400), len(sound) - 1]:
        damaged = flip(path, place)
        [problem] = verify_place(root).problems
        assert (problem.kind, problem.path, problem.records) == ("transaction", str(path), 5)
        assert "the transaction of 'billing' was committed, and its file is damaged at byte" in problem.detail
        assert "the topics lack 5 records (2 of a/0, 3 of b/0) of it" in problem.detail
        assert "the offsets of 'g' may not be committed" in problem.detail
        assert actions(root) == ["restore"]
        assert path.read_bytes() == sound
        assert damaged in [one.read_bytes() for one in (root / ".transactions" / "quarantine").iterdir()]
        assert verify_place(root).ok
    with Broker(root) as broker:
        assert values(broker) == NEW
        assert broker.groups.committed("g") == {"a": {0: 0}}


def test_a_file_that_an_opening_has_set_aside_is_restored_and_published_once(root: Path) -> None:
    storage = FaultyStorage(LocalStorage(root))
    broker = Broker(storage)
    journal = staged(broker)
    transactions_of(broker).decide(journal)
    storage.fault = Fault(operations=frozenset({"pwrite", "pwritev"}), name="b/0")
    with pytest.raises(Crashed):
        transactions_of(broker).publish(journal)
    storage.crash()
    flip(root / ".transactions" / journal.name, 200)
    with Broker(root) as broker:
        assert values(broker) == {**NOTHING, "a": NEW["a"]}
        assert "is damaged at" in broker.recovered[0]
        broker.topic("a").append(b"later")
    [problem] = verify_place(root).problems
    assert problem.path == f"{root}/.transactions/{journal.name[:16]}.damaged"
    assert problem.records == 3
    assert "(it was set aside by an opening); the topics lack 3 records (3 of b/0) of it" in problem.detail
    assert actions(root) == ["restore"]
    assert verify_place(root).ok
    with Broker(root) as broker:
        assert values(broker) == {"a": [*NEW["a"], b"later"], "b": NEW["b"]}


# --- what cannot ------------------------------------------------------------------------------------------------------


def test_what_cannot_be_restored_is_quarantined_and_named(root: Path) -> None:
    name = decided(root)
    path = root / ".transactions" / name
    sound = path.read_bytes()
    damaged = flip(path, sound.index(b"value a0"), sound.index(b"value a1"))
    [problem] = verify_place(root).problems
    assert problem.records == 3
    assert "the topics lack 3 records (3 of b/0) of it" in problem.detail
    assert problem.detail.endswith("; a part of it cannot be read")
    told = repair_place(root, dry_run=True)
    assert ([action.kind for action in told.actions], path.read_bytes()) == (["quarantine"], damaged)
    told = repair_place(root)
    assert told.transactions is not None
    assert told.transactions.repair is not None
    assert told.transactions.repair.records_lost == 3
    assert (root / ".transactions" / "quarantine" / name).read_bytes() == damaged
    assert not path.exists()
    assert verify_place(root).ok
    with Broker(root) as broker:
        assert (values(broker), broker.recovered) == (NOTHING, ())


@pytest.mark.parametrize("harm", ["beginning", "decision", "everything between"])
def test_whatever_is_unreadable_the_rest_is_named(root: Path, harm: str) -> None:
    path = root / ".transactions" / decided(root)
    data = bytearray(path.read_bytes())
    end = data.rindex(b'{"at":') - 13
    begin, stop = {
        "beginning": (0, 30),
        "decision": (end + 5, len(data)),
        "everything between": (HEAD.size + HEAD.unpack_from(data)[0], end),
    }[harm]
    data[begin:stop] = b"\xff" * (stop - begin)
    path.write_bytes(data)
    [problem] = verify_place(root).problems
    expected = {
        "beginning": "a transaction of an unknown producer was committed, and its file is damaged at byte 0",
        "decision": "the transaction of 'billing' was open, or committed, and its file is damaged at byte",
        "everything between": "none of its records can be read",
    }
    assert expected[harm] in problem.detail
    assert actions(root) == ["quarantine"]
    assert verify_place(root).ok


def test_a_damaged_file_of_a_published_transaction_loses_nothing(root: Path) -> None:
    with Broker(root) as broker:
        journal = staged(broker)
        transactions_of(broker).decide(journal)
        transactions_of(broker).publish(journal)
        journal.note_published()
    path = root / ".transactions" / journal.name
    data = path.read_bytes()
    flip(path, data.index(b"value a0"), data.index(b"value a1"))
    [problem] = verify_place(root).problems
    assert problem.detail.endswith("its records and offsets were published before, so nothing is lost")
    assert (problem.records, actions(root)) == (0, ["quarantine"])


# --- a power cut ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".txn", ".damaged"])
@pytest.mark.parametrize("places", [(200,), (200, 210)], ids=["restored", "quarantined"])
def test_a_power_cut_during_the_repair_loses_no_file(places: tuple[int, ...], ending: str) -> None:
    disk = Disk()
    prepared(DiskStorage(disk))
    name = decided(DiskStorage(disk))
    place = Subdirectory(DiskStorage(disk), ".transactions")
    file = place.open(name, writable=True)
    damaged = bytearray(file.pread(file.size(), 0))
    for at in places:
        damaged[at] ^= 4
    file.pwrite(bytes(damaged), 0)
    file.datasync()
    place.rename(name, name.removesuffix(".txn") + ending)
    place.sync_directory()
    cut = Disk(disk.image(), recording=True)
    repair_place(DiskStorage(cut))
    cut.note("repaired")
    expected, seen = NEW if len(places) == 1 else NOTHING, set()
    for moment in moments(cut):
        for state in moment.states(2, 0):
            if (state.key, moment.note) in seen:
                continue
            seen.add((state.key, moment.note))
            storage = DiskStorage(Disk(state.image))
            assert bytes(damaged) in kept(storage)
            if moment.note == "repaired":
                assert verify_place(storage).ok
            repair_place(storage)
            assert verify_place(storage).ok
            assert bytes(damaged) in kept(storage)
            with Broker(storage) as broker:
                assert values(broker) == expected
    assert len(seen) > 3


def kept(storage: Any) -> list[bytes]:
    """Return the contents of all files of transactions, with those in quarantine/."""
    places = [Subdirectory(storage, ".transactions"), Subdirectory(storage, ".transactions/quarantine")]
    files = [(place, name) for place in places for name in place.names() if "." in name]
    return [(file := place.open(name)).pread(file.size(), 0) for place, name in files]
