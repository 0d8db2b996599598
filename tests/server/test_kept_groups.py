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
from seglog.server.runtime.shares import ShareFull, owner_of
from seglog.topic.groups.charges import NOBODY, Charges


class Kept:
    """What the groups have, as `KeptGroups` gets it."""

    def __init__(self, most):
        self.groups, self.charges = KeptGroups(most), Charges()

    def commit(self, name, group, more, of=None, instead_of=0):
        """Store something, instead of what another caller has stored."""
        payer, before = self.groups.payer(name), NOBODY if of is None else owner_of(of)
        growth = {before: -instead_of, payer.id: more}
        payer.admits(group, growth, self.charges)
        self.charges.change(group, growth)

    def find(self, group, more):
        """Let an earlier version have stored something."""
        self.charges.change(group, {NOBODY: more})

    def delete(self, name, group):
        self.charges.change(group, {owner_of(name): -self.charges.of(owner_of(name))[group]})


def test_a_caller_keeps_three_quarters_and_finds_room_again_when_it_deletes_a_group():
    kept = Kept(1000)
    kept.commit("mallory", "m0", 300)
    kept.commit("mallory", "m1", 450)
    with pytest.raises(ShareFull, match="750 are of 'mallory', whose share has no room for 1 more"):
        kept.commit("mallory", "m2", 1)
    kept.commit("victim", "v", 125)
    kept.delete("mallory", "m0")
    kept.commit("mallory", "m2", 100)


def test_what_another_caller_adds_to_a_group_counts_against_that_caller():
    kept = Kept(1000)
    kept.commit("one", "g", 300)
    kept.commit("two", "g", 450)
    with pytest.raises(ShareFull, match="450 are of 'two'"):
        kept.commit("two", "g", 1)
    assert kept.charges.of(owner_of("one")) == {"g": 300}
    kept.delete("two", "g")
    kept.commit("one", "g", 450)


def test_what_replaces_a_record_of_another_caller_counts_against_its_writer_and_needs_room():
    kept = Kept(1000)
    kept.commit("one", "g", 600)
    kept.commit("two", "g", 100, of="one", instead_of=100)
    assert kept.charges.paid() == {owner_of("one"): 500, owner_of("two"): 100}
    kept.commit("three", "h", 200)
    kept.commit("two", "g", 50, of="one", instead_of=50)
    with pytest.raises(ShareFull, match="150 are of 'two'"):
        kept.commit("two", "g", 300, of="one", instead_of=300)


def test_a_group_that_was_deleted_belongs_to_the_caller_that_begins_it_again():
    kept = Kept(1000)
    kept.commit("one", "g", 750)
    kept.delete("one", "g")
    kept.commit("two", "g", 750)
    with pytest.raises(ShareFull, match="750 are of 'two'"):
        kept.commit("two", "h", 1)
    kept.commit("one", "h", 125)  # the group counts for it no longer


def test_groups_of_an_old_directory_that_takes_more_than_there_is_may_grow_and_no_new_one_begins():
    kept = Kept(1000)
    for number in range(15):
        kept.find(f"old{number}", 100)
    with pytest.raises(ShareFull, match=r"take 1500 bytes of 1000.*Delete groups.*raise --memory"):
        kept.commit("one", "new", 1)
    for number in range(15):
        kept.commit("one", f"old{number}", 5)
    with pytest.raises(ShareFull):
        kept.commit("one", "old0", 100)
    kept.commit("two", "old0", 1)
    for number in range(10):
        kept.find(f"old{number}", -100)
    kept.commit("one", "new", 100)
    kept.commit("one", "old0", 50)


def test_what_an_earlier_version_has_stored_counts_against_no_caller_until_one_replaces_it():
    kept = Kept(1000)
    kept.find("old", 800)
    kept.commit("one", "new", 100)
    with pytest.raises(ShareFull):
        kept.commit("one", "new", 1)
    kept.commit("one", "old", 700, instead_of=700)  # a consumer goes on, although its share is full
    assert kept.charges.paid() == {NOBODY: 100, owner_of("one"): 800}
    with pytest.raises(ShareFull):
        kept.commit("one", "old", 101, instead_of=100)
    kept.commit("two", "other", 50)


def test_addresses_that_come_once_are_forgotten():
    kept = Kept(1_000_000)
    for number in range(100):
        kept.commit(f"192.0.2.{number}", f"g{number}", 1)
        kept.delete(f"192.0.2.{number}", f"g{number}")
    assert (kept.charges.paid(), kept.charges.sizes, kept.charges.size) == ({}, {}, 0)


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
