"""A copy becomes the leader, the old leader stops, and comes back as a copy."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import Broker, Mirror
from seglog.replication.diff import diff
from seglog.replication.promote import fence, promote
from tests.replication.conftest import SMALL, fill

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Served


def test_a_promoted_copy_goes_on_where_it_ends(source: Path, target: Path) -> None:
    with seglog.open(source, SMALL) as log:
        fill(log, 50)
        with Mirror(source, target) as mirror:
            mirror.step()
    assert promote(target) == 1
    with seglog.open(target) as log:
        assert log.append(b"after the promotion") == 50
    with pytest.raises(seglog.InvalidArgument, match="no copy"):
        promote(target)


def test_a_copy_that_a_mirror_still_writes_is_not_promoted(source: Path, target: Path) -> None:
    with seglog.open(source) as log:
        fill(log, 5)
        with Mirror(source, target) as mirror:
            mirror.step()
            with pytest.raises(seglog.LogLocked):
                promote(target)


def test_a_fenced_leader_accepts_nothing_and_keeps_what_it_has(source: Path, target: Path) -> None:
    with seglog.open(source) as log:
        fill(log, 5)
        with Mirror(source, target) as mirror:
            mirror.step()
        term = promote(target)
        log.fence(term)
        with pytest.raises(seglog.LogFenced, match="term 1"):
            log.append(b"too late")
        with pytest.raises(seglog.LogFenced):
            log.truncate(0)
        assert log.next_offset == 5
        assert log.read(4).offset == 4
    with pytest.raises(seglog.LogFenced):
        seglog.open(source)
    with seglog.open(source, mode="r") as log:
        assert log.next_offset == 5


def test_a_leader_that_was_fenced_by_mistake_is_promoted_again(source: Path) -> None:
    with seglog.open(source) as log:
        fill(log, 5)
        log.fence(3)
    assert promote(source) == 4
    with seglog.open(source) as log:
        assert log.append(b"again") == 5


def test_a_leader_of_the_same_term_is_not_fenced(source: Path) -> None:
    with seglog.open(source) as log:
        with pytest.raises(seglog.InvalidArgument, match="higher term"):
            log.fence(0)
        log.append(b"still a leader")


def test_an_old_leader_with_nothing_of_its_own_becomes_a_copy(source: Path, target: Path, same: Any) -> None:
    with seglog.open(source, SMALL) as log:
        fill(log, 50)
        with Mirror(source, target) as mirror:
            mirror.step()
    fence(source, promote(target))
    with seglog.open(target) as log:
        fill(log, 20, "new")
        with Mirror(target, source) as mirror:
            mirror.step()
        same(target, source)
    with pytest.raises(seglog.LogReadOnly):
        seglog.open(source)
    assert promote(source) == 2


def test_an_old_leader_that_is_ahead_is_detected_and_its_records_are_shown(
    source: Path, target: Path, same: Any
) -> None:
    with seglog.open(source, SMALL) as log:
        fill(log, 50)
        with Mirror(source, target) as mirror:
            mirror.step()
        promote(target)
        log.append(b"accepted by the old leader")
    with seglog.open(target, SMALL) as log:
        log.append(b"accepted by the new one")
        with pytest.raises(seglog.CopyDiverged, match="seglog diff"):
            Mirror(target, source)
        report = diff(source, target)
        assert not report.same
        assert [(one.offset, one.kind) for one in report.differences] == [(50, "record")]
        with Mirror(target, source, restart=True) as mirror:
            mirror.step()
        same(target, source)
        assert diff(source, target).same


def test_an_old_leader_that_truncated_meanwhile_goes_back_to_the_last_common_record(
    source: Path, target: Path, same: Any
) -> None:
    with seglog.open(source, SMALL) as log:
        fill(log, 50)
        with Mirror(source, target) as mirror:
            mirror.step()
        promote(target)
        log.truncate(20)
        fill(log, 40, "elsewhere")
    with seglog.open(target, SMALL) as log:
        fill(log, 5, "new")
        with pytest.raises(seglog.CopyDiverged, match="from offset 20"):
            Mirror(target, source)
        with Mirror(target, source, restart=True) as mirror:
            mirror.step()
        same(target, source)


def test_a_copy_does_not_follow_the_old_leader_after_the_promotion_of_another(
    source: Path, target: Path, tmp_path: Path
) -> None:
    second = tmp_path / "second"
    with seglog.open(source, SMALL) as log:
        fill(log, 20)
        for copy in (target, second):
            with Mirror(source, copy) as mirror:
                mirror.step()
        promote(target)
        with Mirror(target, second) as mirror:
            mirror.step()
        fill(log, 5, "old leader")
        with pytest.raises(seglog.CopyDiverged, match="follow the promoted log"):
            Mirror(source, second)


def test_two_copies_that_were_both_promoted_are_told_apart(source: Path, target: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    with seglog.open(source, SMALL) as log:
        fill(log, 20)
        for copy in (target, second):
            with Mirror(source, copy) as mirror:
                mirror.step()
    assert promote(target) == promote(second) == 1
    for number, copy in enumerate((target, second)):
        with seglog.open(copy) as log:
            log.append(b"%d" % number)
    with pytest.raises(seglog.CopyDiverged):
        Mirror(target, second)


def test_a_server_is_fenced_and_the_promoted_copy_is_served(
    serve: Callable[..., Served], tmp_path: Path, target: Path
) -> None:
    old = serve()
    with seglog.Client(old.url, retries=0) as client:
        topic = client.create_topic("orders", partitions=2)
        for number in range(10):
            topic.append(b"%d" % number, key=b"%d" % number)
        client.commit("billing", {"orders": {0: 1}})
        with Mirror(old.url, target) as mirror:
            while mirror.step():
                pass
        fence(old.url, promote(target))
        with pytest.raises(seglog.LogFenced):
            topic.append(b"too late")
        with pytest.raises(seglog.LogFenced):
            client.commit("billing", {"orders": {0: 2}})
        assert sum(bounds.next_offset for bounds in topic.bounds().values()) == 10
    with Broker(target) as broker:
        assert broker.groups.committed("billing") == {"orders": {0: 1}}
        broker.topic("orders").append(b"accepted")


def test_a_promotion_is_repeated_after_it_was_interrupted(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(tmp_path / "leader") as broker:
        topic = broker.create_topic("orders", partitions=3)
        with Mirror(tmp_path / "leader", target) as mirror:
            mirror.step()
        module = importlib.import_module("seglog.replication.promote")

        real, calls = module._promote, []

        def dies(*arguments: Any) -> None:
            calls.append(1)
            if len(calls) == 2:
                raise KeyboardInterrupt
            real(*arguments)

        monkeypatch.setattr(module, "_promote", dies)
        with pytest.raises(KeyboardInterrupt):
            promote(target)
        monkeypatch.setattr(module, "_promote", real)
        assert promote(target) == 1
        assert topic.partitions == 3
    with Broker(target) as broker:
        terms = [broker.topic("orders").partition(number).view().manifest.role.term for number in range(3)]
        assert terms == [1, 1, 1]
        broker.topic("orders").append(b"1")
