"""Committed offsets and members stay for long: each caller has a share of what a server keeps of groups."""

from __future__ import annotations

from types import SimpleNamespace

import httpx
import pytest

from seglog import Broker, MemoryStorage
from seglog.client import Client
from seglog.server.api import group_rights
from seglog.server.rights.access import Caller
from seglog.server.runtime import kept_groups
from seglog.server.runtime.kept_groups import KeptGroups
from seglog.server.runtime.shares import ShareFull


class Kept:
    """What the groups have, as `KeptGroups` gets it."""

    def __init__(self, most):
        self.groups, self.sizes = KeptGroups(most), {}

    def commit(self, payer, group, more):
        self.groups.admit(payer, group, more, self.sizes, sum(self.sizes.values()))
        self.sizes[group] = self.sizes.get(group, 0) + more


def test_a_caller_keeps_three_quarters_and_finds_room_again_when_it_deletes_a_group():
    kept = Kept(1000)
    kept.commit("mallory", "m0", 300)
    kept.commit("mallory", "m1", 450)
    with pytest.raises(ShareFull, match="and 750 are of 'mallory', whose share has no room for 1 more"):
        kept.commit("mallory", "m2", 1)
    kept.commit("victim", "v", 125)
    del kept.sizes["m0"]
    kept.commit("mallory", "m2", 100)


def test_what_another_caller_adds_to_a_group_counts_against_the_one_that_began_it():
    kept = Kept(1000)
    kept.commit("one", "g", 300)
    kept.commit("two", "g", 450)
    with pytest.raises(ShareFull, match="of 'one'"):
        kept.commit("two", "g", 1)
    kept.commit("two", "h", 125)


def test_a_group_that_was_deleted_belongs_to_the_caller_that_begins_it_again():
    kept = Kept(1000)
    kept.commit("one", "g", 750)
    del kept.sizes["g"]
    kept.commit("two", "g", 750)
    with pytest.raises(ShareFull, match="750 are of 'two'"):
        kept.commit("two", "h", 1)
    kept.commit("one", "h", 125)  # the group counts for it no longer


def test_groups_of_an_old_directory_that_takes_more_than_there_is_may_grow_and_no_new_one_begins():
    kept = Kept(1000)
    kept.sizes = {f"old{number}": 100 for number in range(15)}
    with pytest.raises(ShareFull, match=r"1500 of them since before the server started.*Delete groups.*raise --memory"):
        kept.commit("one", "new", 1)
    for number in range(15):
        kept.commit("one", f"old{number}", 5)
    with pytest.raises(ShareFull):
        kept.commit("one", "old0", 100)
    kept.commit("two", "old0", 1)
    for number in range(10):
        del kept.sizes[f"old{number}"]
    kept.commit("one", "new", 100)
    kept.commit("one", "old0", 100)


def test_what_a_server_has_found_when_it_started_counts_against_no_caller():
    kept = Kept(1000)
    kept.sizes = {"old": 600}
    kept.commit("one", "new", 300)
    with pytest.raises(ShareFull):
        kept.commit("one", "new", 1)
    kept.commit("two", "other", 50)


def test_addresses_that_come_once_are_forgotten(monkeypatch):
    monkeypatch.setattr(kept_groups, "MAX_GROUPS", 8)
    kept = Kept(1_000_000)
    for number in range(100):
        kept.commit(f"192.0.2.{number}", f"g{number}", 1)
        del kept.sizes[f"g{number}"]
    assert len(kept.groups._groups) <= 17


def test_a_caller_does_not_get_all_names_of_groups(monkeypatch):
    monkeypatch.setattr(kept_groups, "MAX_GROUPS", 8)
    kept = Kept(1_000_000)
    for number in range(6):
        kept.commit("mallory", f"m{number}", 1)
    with pytest.raises(ShareFull, match="6 groups of at most 8"):
        kept.commit("mallory", "m6", 1)
    kept.commit("mallory", "m0", 1)
    kept.commit("victim", "v", 1)


def test_commits_over_http_count_too(serve):
    url = serve("--memory", "1MiB").url  # of which commits have a quarter, and one address three quarters of that
    with Client(url) as client:
        client.create_topic("t", partitions=60)

    def commit(group):
        offsets = {"t": dict.fromkeys(map(str, range(60)), 0)}
        return httpx.post(f"{url}/groups/{group}/offsets", json={"offsets": offsets}).status_code

    assert [commit(f"g{number}") for number in range(7)] == [*[204] * 6, 429]
    assert commit("g0") == 204
    assert httpx.delete(f"{url}/groups/g1").status_code == 204
    assert commit("g6") == 204


def test_members_over_http_count_too(serve):
    url = serve("--memory", "1MiB").url
    with Client(url) as client:
        client.create_topic("t")

    def join(number):
        wanted = {"topics": ["t"], "session_timeout": 600, "member": f"m{number}"}
        return httpx.post(f"{url}/groups/g{number % 3}/members", json=wanted).status_code

    joined = next(number for number in range(1000) if join(number) == 429)
    assert 200 < joined < 400
    assert join(0) == 200  # again
    assert httpx.delete(f"{url}/groups/g0/members/m0").status_code == 204
    assert join(joined) == 200


def test_a_group_that_another_token_deletes_and_makes_again_counts_for_that_token():
    settings = SimpleNamespace(limits=SimpleNamespace(groups=1))
    with Broker(MemoryStorage()) as broker:
        broker.create_topic("t")
        access = SimpleNamespace(is_owned=lambda group: False)
        services = SimpleNamespace(groups_made={}, broker=broker, access=access, settings=settings)

        def make(token, group):
            caller = Caller(token, {"t": frozenset({"read"})}, ())
            group_rights.admit(SimpleNamespace(caller=caller, services=services), group)
            broker.groups.commit(group, {"t": {0: 0}})

        make("one", "g")
        broker.groups.delete("g")
        make("two", "g")
        make("one", "h")
        with pytest.raises(ShareFull, match="has created 1 groups, the limit"):
            make("two", "i")
