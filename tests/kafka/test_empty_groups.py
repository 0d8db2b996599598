"""A group without members is shown as Kafka 4.3.1 shows it, until it expires.

The stories are those of `python -m tests.kafka.suites configs`, which asks a real Kafka, too.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from seglog.client import Client
from seglog.kafka import codes
from tests.kafka.suites import group_edges
from tests.kafka.suites.group_edges import Grouping, looks

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUESTS = ("ListGroups", "DescribeGroups 5", "DescribeGroups 6", "ConsumerGroupDescribe")
GONE = ("", "NONE Dead -", "GROUP_ID_NOT_FOUND Dead -", "GROUP_ID_NOT_FOUND - -")
SIMPLE = ("Empty classic -", "NONE Empty -", "NONE Empty -", GONE[3])
OF_CONSUMERS = ("Empty consumer consumer", GONE[1], GONE[2], "NONE Empty uniform")


def classic(kind: str) -> tuple[str, ...]:
    return f"Empty classic {kind}", f"NONE Empty {kind}", f"NONE Empty {kind}", GONE[3]


@pytest.fixture(scope="module")
def asking(kafka: Any) -> Iterator[Any]:
    """A broker as the stories ask it."""
    with Client(kafka.url) as client, kafka.connection() as raw:
        yield SimpleNamespace(ask=raw.ask, create=lambda name, _: client.create_topic(name))


@pytest.fixture(scope="module")
def answers(asking: Any) -> dict[str, str]:
    """What the broker answers in all stories."""
    return {check.removeprefix("group, "): found for check, found in group_edges.outcomes(asking)}


@pytest.mark.parametrize(
    ("story", "when", "shown"),
    [
        ("missing", "", GONE),
        ("committed", "", SIMPLE),
        ("committed", "after its last offset", SIMPLE),
        ("committed", "after DeleteGroups", GONE),
        ("consumers", "empty", OF_CONSUMERS),
        ("consumers", "after its last offset", OF_CONSUMERS),
        ("consumers without commits", "empty", OF_CONSUMERS),
        ("consumers without commits", "after DeleteGroups", GONE),
        ("classic", "empty", classic("consumer")),
        ("of connect", "empty", classic("connect")),
    ],
)
def test_a_group_without_members_is_shown_as_kafka_shows_it(
    answers: dict[str, str], story: str, when: str, shown: tuple[str, ...]
) -> None:
    assert tuple(answers[f"{story}: {request} {when}"] for request in REQUESTS) == shown


def test_a_group_without_offsets_can_be_deleted_once(answers: dict[str, str]) -> None:
    assert answers["committed: OffsetDelete of nothing"] == "NONE NONE"
    assert (answers["committed: DeleteGroups"], answers["committed: DeleteGroups again"]) == (
        "NONE",
        "GROUP_ID_NOT_FOUND",
    )


def test_list_groups_shows_the_protocol_type_of_a_group_with_members(answers: dict[str, str]) -> None:
    assert answers["of connect: ListGroups with a member"] == "Stable classic connect"


def test_the_epoch_of_a_group_goes_on_when_it_was_empty(asking: Any) -> None:
    group = Grouping(asking, "goes-on")
    epochs = []
    for member in ("first", "second"):
        epochs.append(group.beat(member, 0)["member_epoch"])
        assert group.beat(member, -1)["error_code"] == codes.NONE
    assert epochs[1] > epochs[0]


def test_a_refused_join_neither_makes_a_group_nor_changes_what_an_empty_one_was(asking: Any) -> None:
    absent, empty = Grouping(asking, "refused", kind=""), Grouping(asking, "was-of-consumers", kind="")
    empty.beat("m", 0)
    empty.beat("m", -1)
    for group in (absent, empty):
        assert group.join()["error_code"] == codes.INCONSISTENT_GROUP_PROTOCOL
    assert tuple(found for _, found in looks(absent, ""))[:4] == GONE
    assert tuple(found for _, found in looks(empty, ""))[:4] == OF_CONSUMERS
