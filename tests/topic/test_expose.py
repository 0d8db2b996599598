"""Topics, brokers and consumers that show only what is synced; and waiting for a lock."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import Broker, Topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_readers_of_a_topic_see_its_records_once_they_are_synced(tmp_path: Path) -> None:
    with Broker(tmp_path / "shop") as writing, Broker(tmp_path / "shop", mode="r", expose="durable") as reading:
        topic = writing.create_topic("orders")
        topic.append(b"synced")
        writing.sync()
        topic.append(b"not yet")
        with Topic.open(tmp_path / "shop" / "orders", mode="r", expose="durable") as alone:
            for shown in (reading.topic("orders"), alone):
                log = shown.partition(0)
                assert [record.value for record in log.scan()] == [b"synced"]
                with pytest.raises(seglog.NotDurableYet):
                    log.read(1)
                with pytest.raises(seglog.OffsetOutOfRange):
                    log.read(2)
        writing.sync()
        assert reading.topic("orders").partition(0).read(1).value == b"not yet"


@pytest.mark.parametrize("options", [{"expose": "durable"}, {"mode": "r", "expose": "all"}])
def test_what_is_exposed_is_checked(tmp_path: Path, options: Any) -> None:
    Broker(tmp_path / "shop").close()
    with pytest.raises(seglog.InvalidArgument, match="expose"):
        Broker(tmp_path / "shop", **options)


@pytest.mark.parametrize("opened", [seglog.open, Broker], ids=["log", "broker"])
def test_opening_waits_for_the_lock_if_it_is_told_to(tmp_path: Path, opened: Callable[..., Any]) -> None:
    held = opened(tmp_path / "held")
    for wait in (None, 0, 0.06):
        with pytest.raises(seglog.LogLocked, match="wait=10 waits"):
            opened(tmp_path / "held", wait=wait)
    for wrong in (-1, float("nan"), "1", True):
        with pytest.raises((seglog.InvalidArgument, seglog.InvalidType), match="wait"):
            opened(tmp_path / "held", wait=wrong)
    thread = threading.Thread(target=held.close)
    thread.start()
    opened(tmp_path / "held", wait=20).close()
    thread.join()
