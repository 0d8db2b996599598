"""Committed offsets and members stay for long: each caller has a share of what a server keeps of groups."""

from __future__ import annotations

import httpx
import pytest

from seglog.client import Client
from seglog.errors import Busy
from seglog.server.runtime import kept_groups
from seglog.server.runtime.kept_groups import KeptGroups


class Kept:
    """What the groups have, as `KeptGroups` is shown it."""

    def __init__(self, most):
        self.groups, self.sizes = KeptGroups(most), {}

    def commit(self, payer, group, more):
        self.groups.admit(payer, group, more, self.sizes, sum(self.sizes.values()))
        self.sizes[group] = self.sizes.get(group, 0) + more


def test_a_caller_keeps_half_of_what_the_others_leave_and_finds_room_again_when_it_deletes_a_group():
    kept = Kept(1000)
    kept.commit("mallory", "m0", 300)
    kept.commit("mallory", "m1", 200)
    with pytest.raises(Busy, match="500 of them are groups of 'mallory'"):
        kept.commit("mallory", "m2", 1)
    kept.commit("victim", "v", 250)
    del kept.sizes["m0"]
    kept.commit("mallory", "m2", 100)


def test_what_another_caller_adds_to_a_group_counts_against_the_one_that_began_it():
    kept = Kept(1000)
    kept.commit("one", "g", 300)
    kept.commit("two", "g", 200)
    with pytest.raises(Busy, match="groups of 'one'"):
        kept.commit("two", "g", 1)
    kept.commit("two", "h", 250)


def test_a_group_that_was_deleted_belongs_to_the_caller_that_begins_it_again():
    kept = Kept(1000)
    kept.commit("one", "g", 500)
    del kept.sizes["g"]
    kept.commit("two", "g", 500)
    with pytest.raises(Busy, match="groups of 'two'"):
        kept.commit("two", "h", 1)


def test_a_caller_does_not_get_all_names_of_groups(monkeypatch):
    monkeypatch.setattr(kept_groups, "MAX_GROUPS", 8)
    kept = Kept(1_000_000)
    for number in range(4):
        kept.commit("mallory", f"m{number}", 1)
    with pytest.raises(Busy, match="4 groups of at most 8"):
        kept.commit("mallory", "m4", 1)
    kept.commit("mallory", "m0", 1)
    kept.commit("victim", "v", 1)


def test_commits_over_http_count_too(serve):
    url = serve("--memory", "1MiB").url  # of which commits have a quarter, and one address an eighth
    with Client(url) as client:
        client.create_topic("t", partitions=60)

    def commit(group):
        offsets = {"t": dict.fromkeys(map(str, range(60)), 0)}
        return httpx.post(f"{url}/groups/{group}/offsets", json={"offsets": offsets}).status_code

    assert [commit(f"g{number}") for number in range(5)] == [204, 204, 204, 204, 429]
    assert commit("g0") == 204
    assert httpx.delete(f"{url}/groups/g1").status_code == 204
    assert commit("g4") == 204


def test_members_over_http_count_too(serve):
    url = serve("--memory", "1MiB").url
    with Client(url) as client:
        client.create_topic("t")

    def join(number):
        wanted = {"topics": ["t"], "session_timeout": 600, "member": f"m{number}"}
        return httpx.post(f"{url}/groups/g{number % 3}/members", json=wanted).status_code

    joined = next(number for number in range(1000) if join(number) == 429)
    assert 100 < joined < 250
    assert join(0) == 200  # again
    assert httpx.delete(f"{url}/groups/g0/members/m0").status_code == 204
    assert join(joined) == 200
