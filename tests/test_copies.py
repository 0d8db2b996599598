"""Objects that hold a lock or a session are not copied: a copy that is closed would take them from the original."""

from __future__ import annotations

import copy
import pickle
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.client import Client
from seglog.testing.internals import lock_of
from seglog.topic import Topic
from seglog.topic.broker import Broker
from seglog.topic.cleaning import Cleaner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def held(tmp_path: Path) -> Iterator[dict[str, Any]]:
    with ExitStack() as resources:
        log = resources.enter_context(seglog.open(tmp_path / "log"))
        reader = resources.enter_context(seglog.open(tmp_path / "log", mode="r"))
        broker = resources.enter_context(Broker(tmp_path / "broker"))
        topic = broker.create_topic("orders")
        yield {
            "log": log,
            "reader": reader,
            "broker": broker,
            "topic": topic,
            "groups": broker.groups,
            "consumer": resources.enter_context(broker.consumer("billing", ["orders"])),
            "cleaner": resources.enter_context(Cleaner(broker.logs)),
            "lone topic": resources.enter_context(Topic.create(tmp_path / "alone", partitions=1)),
            "client": resources.enter_context(Client("http://127.0.0.1:1")),
            "lock": lock_of(log),
        }


NAMES = ["log", "reader", "broker", "topic", "groups", "consumer", "cleaner", "lone topic", "client", "lock"]


@pytest.mark.parametrize("name", NAMES)
def test_what_holds_a_lock_or_a_session_is_neither_copied_nor_pickled(held: dict[str, Any], name: str) -> None:
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(seglog.InvalidType, match="cannot be copied"):
            copied(held[name])


def test_a_refused_copy_leaves_the_lock_with_the_log(tmp_path: Path) -> None:
    with seglog.open(tmp_path) as log:
        with pytest.raises(seglog.InvalidType):
            copy.copy(log).close()
        with pytest.raises(seglog.LogLocked):
            seglog.open(tmp_path)
