"""From a path and a selection to the partitions that are read: a log, a topic, a broker directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import seglog
from seglog.errors import InvalidArgument, LogNotFound, NotALog
from seglog.spark.read.local_logs import places
from seglog.spark.read.options import ReadOptions
from seglog.topic import Topic

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """Topics orders (2 partitions), orders-eu and bills, in directories of other names; and a log beside them."""
    for name, partitions in [("orders", 2), ("orders-eu", 1), ("bills", 1)]:
        Topic.create(tmp_path / f"directory of {name}", partitions=partitions, name=name).close()
    seglog.open(tmp_path / "events").close()
    return tmp_path


def found(path: Path, **options: str) -> list[tuple[str, int]]:
    return [place.key for place in places(str(path), ReadOptions.parse({"path": str(path), **options}).selection)]


def test_topics_of_a_broker_are_chosen_by_name_by_pattern_or_by_partition(broker: Path) -> None:
    assert found(broker, subscribe="orders, bills") == [("bills", 0), ("orders", 0), ("orders", 1)]
    assert found(broker, subscribePattern="orders.*") == [("orders", 0), ("orders", 1), ("orders-eu", 0)]
    assert found(broker, subscribePattern="order") == []
    assert found(broker, assign='{"orders": [1], "bills": [0]}') == [("bills", 0), ("orders", 1)]


def test_a_topic_or_a_log_needs_no_selection_but_takes_one(broker: Path) -> None:
    orders = broker / "directory of orders"
    assert found(orders) == found(orders, subscribe="orders") == [("orders", 0), ("orders", 1)]
    assert found(orders, assign='{"orders": [0]}') == [("orders", 0)]
    assert found(broker / "events") == found(broker / "events", subscribePattern="ev.*") == [("events", 0)]


def test_a_broker_wants_a_selection(broker: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"option path: .* is a broker; select topics with assign"):
        found(broker)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "orders,bill"}, "option subscribe: there is no topic 'bill'"),
        ({"subscribe": "directory of orders"}, "option subscribe: there is no topic"),
        ({"assign": '{"bill": [0]}'}, "option assign: there is no topic 'bill'"),
        ({"assign": '{"orders": [0, 2]}'}, "option assign: topic 'orders' has no partition 2, only 0 to 1"),
    ],
)
def test_what_is_not_there_is_refused_by_the_options_name(broker: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        found(broker, **options)


def test_two_topics_of_one_name_are_refused(broker: Path) -> None:
    Topic.create(broker / "again", partitions=1, name="bills").close()
    with pytest.raises(NotALog, match=r"two topics at .* have the name 'bills'"):
        found(broker, subscribe="orders")


def test_where_nothing_is_the_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogNotFound, match="option path"):
        found(tmp_path / "missing", subscribe="a")
    with pytest.raises(LogNotFound, match="option path"):
        found(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(NotALog, match="option path"):
        found(tmp_path / "file")
    with pytest.raises(NotALog, match="option path"):
        found(tmp_path)
