"""`verify` and `repair` of a broker's own files: transactions, and the log of transactional ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from seglog.kafka.transactions.state import State, Transactional
from seglog.kafka.transactions.store import Store
from seglog.topic.broker import Broker, transactions_of
from seglog.topic.transactions.journal import Batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A broker with two topics, and a transaction of five records that is committed and not published."""
    with Broker(tmp_path / "root") as broker:
        journal = transactions_of(broker).begin({"id": "billing"})
        for name, count in (("a", 2), ("b", 3)):
            batch = Batch(name, broker.create_topic(name).id, 0, f"x {name}", count, {})
            transactions_of(broker).stage(journal, batch, pa.record_batch({"value": pa.array([b"v"] * count)}))
        transactions_of(broker).decide(journal)
    return tmp_path / "root"


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)


def test_verify_and_repair_exit_as_for_other_damage(root: Path, cli: Callable[..., Any]) -> None:
    [path] = (root / ".transactions").iterdir()
    ended = cli("verify", root)
    assert (ended.code, "unfinished: " in ended.text) == (0, True)
    flip(path, 200)
    ended = cli("verify", root)
    assert ended.code == 1
    assert f"{path}: DAMAGED: the transaction of 'billing' was committed" in ended.text
    assert "1 problem in files of transactions" in ended.text
    found = cli("verify", root, "--json").json
    assert (found["ok"], found["transactions"]["problems"][0]["records"], len(found["topics"])) == (False, 5, 2)
    assert cli("repair", root, "--dry-run").code == 1
    done = cli("repair", root, "--yes")
    assert (done.code, f"kept: {root}/.transactions/quarantine/{path.name}" in done.text) == (0, True)
    assert cli("repair", root, "--yes", "--json").json["transactions"]["actions"] == []


def test_damage_in_the_log_of_transactional_ids_is_reported_and_repaired(root: Path, cli: Callable[..., Any]) -> None:
    with Broker(root) as broker:
        store = Store(lambda create: broker._producers_log(create=create))
        for number in range(3):
            store.write(Transactional(f"id-{number}", "", number, 0, 60.0, State.COMMITTED))
    [path] = (root / ".producers").glob("*.store")
    flip(path, path.read_bytes().index(b"id-1"))
    ended = cli("verify", root)
    assert ended.code == 1
    assert ".producers: DAMAGED: 1 problem; 2 records readable" in ended.text
    assert "lost with them: the latest state of some transactional ids" in ended.text
    assert cli("repair", root, "--yes").code == 0
    assert cli("verify", root).code == 0
    with Broker(root) as broker:
        store = Store(lambda create: broker._producers_log(create=create))
        assert [one.name for one in store.load()] == ["id-0", "id-2"]
