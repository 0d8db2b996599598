"""Each committed offset and each member of a group counts against the caller that wrote it, also after a restart."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from seglog import Broker, MemoryStorage
from seglog.errors import GroupNotFound
from seglog.server.rights.access import new_token
from seglog.server.runtime.kept_groups import KeptGroups
from seglog.server.runtime.shares import ShareFull, owner_of
from seglog.topic.broker import transactions_of
from seglog.topic.groups.bounds import EMPTY_SECONDS
from seglog.topic.groups.records import COMMIT_BYTES, MEMBER_BYTES, NAME_BYTES, OWNED_BYTES, Note, OffsetRecord, decode
from seglog.topic.positions import nested
from tests.conftest import ManualClock
from tests.topic.groups.conftest import Hall

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from seglog.topic.layout.places import Partition

PARTITIONS = 60
TOPICS = {"orders": 4, "users": 2}
PLACES = [(topic, number) for topic, numbers in TOPICS.items() for number in range(numbers)]
CALLERS = st.sampled_from(["one", "two", "three"])
GROUPS = st.sampled_from(["g", "h"])
SOME = st.sets(st.sampled_from(PLACES), min_size=1)
TEXTS = st.sampled_from(["", "m" * 40, "m" * 2000])


# --- a server with tokens ---------------------------------------------------------------------------------------------


@pytest.fixture
def commit_as(serve: Callable[..., Any], tmp_path: Path) -> Any:
    """commit_as("mallory", "group") commits 60 offsets, 512 B each, and returns the status. Groups have 256 KiB."""
    tokens, entries = {}, []
    for who, rights in (("mallory", {"t": ["read"]}), ("victim", {"t": ["read"]}), ("root", {"*": ["admin"]})):
        tokens[who], entry = new_token(who, rights)
        entries.append(entry)
    (tmp_path / "tokens").write_text(json.dumps({"tokens": entries}))

    server = serve("--memory", "1MiB", "--tokens", str(tmp_path / "tokens"))

    class Committing:
        def ask(self, who: str, method: str, path: str, body: object = None) -> int:
            headers = {"Authorization": f"Bearer {tokens[who]}"}
            return httpx.request(method, server.url + path, json=body, headers=headers).status_code

        def __call__(self, who: str, group: str, partitions: int = PARTITIONS) -> int:
            offsets = {"t": dict.fromkeys(map(str, range(partitions)), 0)}
            return self.ask(who, "POST", f"/groups/{group}/offsets", {"offsets": offsets})

        def restart(self) -> None:
            server.stop()
            server.start()

    committing = Committing()
    assert committing.ask("root", "POST", "/topics", {"name": "t", "partitions": PARTITIONS}) == 201
    return committing


def test_a_stranger_that_commits_to_the_groups_of_others_fills_its_own_share(commit_as: Any) -> None:
    for number in range(9):
        assert commit_as("victim", f"v{number}", 1) == 204
    filled = [commit_as("mallory", f"v{number}") for number in range(9)]
    assert filled == [*[204] * 6, *[429] * 3]
    assert commit_as("victim", "own") == 204
    assert commit_as("mallory", "own2", 1) == 429


def test_a_restart_of_the_server_gives_no_caller_another_share(commit_as: Any) -> None:
    assert [commit_as("mallory", f"m{number}") for number in range(7)] == [*[204] * 6, 429]
    commit_as.restart()
    assert commit_as("mallory", "m6") == 429
    assert commit_as("victim", "v") == 204
    assert commit_as.ask("root", "DELETE", "/groups/m0") == 204
    assert commit_as("mallory", "m6") == 429  # what is left is the victim's
    assert commit_as.ask("root", "DELETE", "/groups/m1") == 204
    assert commit_as("mallory", "m6") == 204


def test_offsets_of_a_transaction_count_against_its_caller_also_after_the_broker_is_opened_again() -> None:
    storage, me = MemoryStorage(), owner_of("me")
    with Broker(storage) as broker:
        broker.create_topic("t")
        broker.groups.commit(
            "g", {"t": {0: 0}}, notes={("t", 0): Note("theirs")}, payer=KeptGroups(10_000).payer("them")
        )
        journal = transactions_of(broker).begin({"id": "x"})
        transactions_of(broker).stage_offsets(journal, "g", {("t", 0): (0, "mine")}, me)
        transactions_of(broker).decide(journal)
    with Broker(storage) as broker:
        assert broker.groups._book.charges.paid() == {me: COMMIT_BYTES + len('"mine"')}


def test_open_transactions_together_stage_no_more_than_the_share_of_their_caller() -> None:
    hall, kept = Hall(ManualClock()), KeptGroups(8 * COMMIT_BYTES)
    me, size = kept.payer("me"), COMMIT_BYTES + 2
    hall.groups.check_staged("g", {PLACES[0]: Note()}, me, staged=4 * size)
    with pytest.raises(ShareFull):
        hall.groups.check_staged("g", {PLACES[0]: Note()}, me, staged=5 * size)
    hall.groups.commit_decided([OffsetRecord("g", PLACES[0], 0, payer=me.id)], 1)
    hall.groups.check_staged("g", {PLACES[0]: Note()}, me, staged=5 * size)  # it replaces an equal one
    hall.log.close()


# --- any sequence of what callers do ----------------------------------------------------------------------------------


class Payers(RuleBasedStateMachine):
    """Callers commit, join, leave and delete; topics are cut and deleted; the server starts again.

    The model: offsets has of each committed offset its writer, the offset and its metadata, members of each member its
    writer and topics.
    """

    room = 10**9

    @initialize()
    def begin(self) -> None:
        self.hall, self.kept = Hall(ManualClock()), KeptGroups(self.room)
        self.offsets: dict[tuple[str, Partition], tuple[str, int, str]] = {}
        self.members: dict[str, tuple[str, frozenset[str]]] = {}

    def paid(self) -> dict[str, int]:
        return self.hall.groups._book.charges.paid()

    def note(self, group: str, who: str, offset: int, text: str, places: set[Partition]) -> None:
        """Keep who wrote what has changed."""
        for place in places:
            if self.offsets.get((group, place), ("",))[1:] != (offset, text):
                self.offsets[group, place] = (owner_of(who), offset, text)

    @rule(who=CALLERS, group=GROUPS, places=SOME, offset=st.integers(0, 9), text=TEXTS)
    def commit(self, who: str, group: str, places: set[Partition], offset: int, text: str) -> None:
        before, notes = self.paid(), dict.fromkeys(places, Note(text))
        with suppress(ShareFull):
            offsets = nested(dict.fromkeys(sorted(places), offset))
            self.hall.groups.commit(group, offsets, notes=notes, payer=self.kept.payer(who))
            self.note(group, who, offset, text, places)
        others = self.paid().keys() - {owner_of(who)}
        assert all(self.paid()[other] <= before[other] for other in others), "another caller pays more than before"

    @rule(who=CALLERS, group=GROUPS, place=st.sampled_from(PLACES), offset=st.integers(0, 9), text=TEXTS)
    def commit_by_a_transaction(self, who: str, group: str, place: Partition, offset: int, text: str) -> None:
        payer = self.kept.payer(who)
        with suppress(ShareFull):
            self.hall.groups.check_staged(group, {place: Note(text)}, payer)
            self.hall.groups.commit_decided([OffsetRecord(group, place, offset, metadata=text, payer=payer.id)], 1)
            self.offsets[group, place] = (payer.id, offset, text)

    @rule(who=CALLERS, member=st.sampled_from("abc"), topics=st.sets(st.sampled_from(sorted(TOPICS)), min_size=1))
    def join(self, who: str, member: str, topics: set[str]) -> None:
        with suppress(ShareFull):
            self.hall.groups.join("crowd", topics, member=member, payer=self.kept.payer(who))
            if self.members.get(member, ("",))[1:] != (topics,):
                self.members[member] = (owner_of(who), frozenset(topics))

    @rule(member=st.sampled_from("abc"))
    def leave(self, member: str) -> None:
        self.hall.groups.leave("crowd", member)
        self.members.pop(member, None)

    @rule(seconds=st.sampled_from([31, EMPTY_SECONDS + 1]))
    def time_passes(self, seconds: float) -> None:
        """Members are silent for too long, and groups without them and without offsets expire."""
        self.hall.clock.advance(seconds)
        for name in self.hall.groups.names():
            self.hall.groups.has_members(name)
        self.members.clear()

    @rule(group=GROUPS)
    def delete(self, group: str) -> None:
        with suppress(GroupNotFound):
            self.hall.groups.delete(group)
        self.offsets = {key: said for key, said in self.offsets.items() if key[0] != group}

    @rule(group=GROUPS, places=SOME)
    def forget_offsets(self, group: str, places: set[Partition]) -> None:
        with suppress(GroupNotFound):
            self.hall.groups.forget_offsets(group, places)
        self.offsets = {key: said for key, said in self.offsets.items() if key[0] != group or key[1] not in places}

    @rule(topic=st.sampled_from(sorted(TOPICS)))
    def delete_a_topic(self, topic: str) -> None:
        self.hall.groups.forget_topic(topic)
        self.offsets = {key: said for key, said in self.offsets.items() if key[1][0] != topic}

    @rule(place=st.sampled_from(PLACES), end=st.integers(0, 9))
    def truncate(self, place: Partition, end: int) -> None:
        self.hall.groups.cut(*place, end)
        for key, (who, offset, _) in self.offsets.items():
            if key[1] == place and offset > end:
                self.offsets[key] = (who, end, "")

    @rule(compacted=st.booleans())
    def start_again(self, compacted: bool) -> None:
        if compacted:
            self.hall.log.compact(roll=True)
        self.hall.reopen()
        self.kept = KeptGroups(self.room)

    @invariant()
    def each_record_is_paid_by_who_wrote_it(self) -> None:
        expected, owners = Counter[str](), self.hall.groups._book.crew("crowd").owners
        for who, _, text in self.offsets.values():
            expected[who] += COMMIT_BYTES + len(json.dumps(text))
        for member, (who, topics) in self.members.items():
            owned = sum(owner == member for owner in owners.values())
            expected[who] += MEMBER_BYTES + sum(NAME_BYTES + len(topic) for topic in topics) + OWNED_BYTES * owned
        assert self.paid() == expected

    @invariant()
    def all_together_pay_for_the_records_that_the_log_has(self) -> None:
        live = {record.key: decode(record.key, record.value) for record in self.hall.log.scan()}
        charges = self.hall.groups._book.charges
        assert charges.size == sum(charges.sizes.values()) == sum(sum(one.paid.values()) for one in live.values())

    def teardown(self) -> None:
        self.hall.log.close()


class PayersWithLittleRoom(Payers):
    room = 8000


TestPayers, TestPayersWithLittleRoom = Payers.TestCase, PayersWithLittleRoom.TestCase
for one in (TestPayers, TestPayersWithLittleRoom):
    one.settings = settings(max_examples=40, stateful_step_count=25)
