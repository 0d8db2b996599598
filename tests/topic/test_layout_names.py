"""Topics that are called like files of the layout: none is created, and `repair` frees what an earlier version made."""

from __future__ import annotations

from pathlib import Path

import pytest

import seglog
from seglog.cli import main
from seglog.errors import InvalidArgument
from seglog.format import filename
from seglog.topic import Topic, transaction
from seglog.topic.layout import description, root
from seglog.topic.layout.names import is_reserved
from seglog.topic.repair import repair_place, verify_place

SEGMENT = filename.segment_file(0, 1, filename.STORE)
RESERVED = ["topic.json", "topic.json.tmp", "txn", "MANIFEST", "MANIFEST.prev", "LOCK", "manifest", "Topic.JSON", "7"]
RESERVED += ["tmp", "readers", "staging", "quarantine", "pins", SEGMENT, "orders.index", "a.torn", "b.lease", "0042"]
HIDING = ["topic.json", "MANIFEST", "MANIFEST.prev", SEGMENT]


@pytest.mark.parametrize("name", RESERVED)
def test_a_name_of_the_layout_is_no_name_for_a_new_topic(tmp_path: Path, name: str) -> None:
    with seglog.Broker(tmp_path / "shop") as broker, pytest.raises(InvalidArgument, match="reserved"):
        broker.create_topic(name)
    with pytest.raises(InvalidArgument, match="reserved"):
        Topic.create(tmp_path / "shop" / name, partitions=1)
    assert sorted(one.name for one in (tmp_path / "shop").iterdir()) == [".groups", ".seglog.lock"]


def test_every_file_and_directory_of_a_log_a_topic_and_a_broker_is_reserved(tmp_path: Path) -> None:
    with seglog.Broker(tmp_path / "shop") as broker:
        topic = broker.create_topic("orders", partitions=2)
        topic.append(b"v", once="a")
        topic.partition(0).verify()
        names = {path.name for path in (tmp_path / "shop" / "orders").rglob("*")}
    names |= {description.FILE_NAME, description.TEMPORARY_NAME, transaction.DIRECTORY, *filename.DIRECTORIES}
    assert {"MANIFEST", "LOCK", "0", "topic.json"} < names
    assert [name for name in names if not is_reserved(name) and not name.startswith(".")] == []
    assert root.OFFSETS.startswith(".")


def hidden(tmp_path: Path, name: str) -> Path:
    """A directory of topics as an earlier version left it: one topic is called like a file."""
    shop = tmp_path / "shop"
    with seglog.Broker(shop) as broker:
        for topic in ("orders", "other"):
            broker.create_topic(topic).append(topic.encode())
    (shop / "other").rename(shop / name)
    described = description.read(shop / name)
    description.write(shop / name, description.Description(name, described.partitions, described.id))
    return shop


def values(shop: Path) -> dict[str, list[bytes | None]]:
    with seglog.Broker(shop) as broker:
        return {name: [one.value for one in broker.topic(name).partition(0).scan()] for name in broker.topics()}


@pytest.mark.parametrize("name", HIDING)
def test_such_a_topic_no_longer_hides_the_others(tmp_path: Path, name: str) -> None:
    assert values(hidden(tmp_path, name)) == {"orders": [b"orders"], name: [b"other"]}


@pytest.mark.parametrize("name", HIDING)
def test_repair_renames_such_a_topic_and_its_records_survive(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = hidden(tmp_path, name)
    (problem,) = verify_place(shop).problems
    assert (problem.kind, Path(problem.path).name) == ("name", name)
    assert main(["verify", str(shop)]) == 1
    assert main(["repair", str(shop), "--yes"]) == 0
    assert f"{name}-renamed" in capsys.readouterr().out
    assert verify_place(shop).ok
    assert values(shop) == {"orders": [b"orders"], f"{name}-renamed": [b"other"]}
    assert description.read(shop / f"{name}-renamed").name == f"{name}-renamed"


def test_a_dry_run_renames_nothing_and_a_name_that_is_taken_is_not_used(tmp_path: Path) -> None:
    shop = hidden(tmp_path, "topic.json")
    repair_place(shop, dry_run=True)
    assert (shop / "topic.json").is_dir()
    Topic.create(shop / "topic.json-renamed", partitions=1).close()
    (action,) = repair_place(shop).actions
    assert "topic.json-renamed-2" in action.outcome
    assert values(shop)["topic.json-renamed-2"] == [b"other"]


def test_a_topic_that_was_created_with_a_number_for_a_name_is_still_reached(tmp_path: Path) -> None:
    shop = hidden(tmp_path, "2024")
    assert values(shop)["2024"] == [b"other"]
    assert verify_place(shop).ok
    with seglog.Broker(shop) as broker:
        broker.delete_topic("2024")
        assert broker.topics() == ["orders"]
