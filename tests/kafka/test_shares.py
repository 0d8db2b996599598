"""One token, or one address, takes what the server keeps for its clients; another one finds room."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import weakref
from contextlib import ExitStack, closing, contextmanager

import pytest

from seglog import Broker, MemoryStorage
from seglog.client import Client
from seglog.errors import GroupConflict, StorageError
from seglog.kafka import codes
from seglog.kafka.faults import GroupFull
from seglog.kafka.groups import coordinator as coordinators
from seglog.kafka.groups.group import Group
from seglog.kafka.groups.member import SyncWish, Wish
from seglog.kafka.messages.groups import JOIN_GROUP, OFFSET_COMMIT
from seglog.kafka.messages.producers import INIT_PRODUCER_ID
from seglog.kafka.messages.security import SASL_AUTHENTICATE, SASL_HANDSHAKE
from seglog.kafka.messages.transactions import ADD_OFFSETS_TO_TXN, ADD_PARTITIONS_TO_TXN, TXN_OFFSET_COMMIT
from seglog.kafka.transactions import ids, room, transactions
from seglog.server.rights.access import new_token
from seglog.server.runtime.shares import Shares
from seglog.server.runtime.workers import Workers
from seglog.server.settings import Limits
from seglog.testing.kafka import KafkaBroker
from seglog.topic.transactions.journal import Journal
from tests.kafka.conftest import Raw
from tests.kafka.virtual import run_in_virtual_time
from tests.waiting import HANG_SECONDS

MALLORY, VICTIM = "127.0.0.2", "127.0.0.3"


@contextmanager
def from_address(server, host):
    """Give a connection from another address of this machine."""
    target, port = server.address.rsplit(":", 1)
    opened = socket.create_connection((target, int(port)), timeout=HANG_SECONDS, source_address=(host, 0))
    with closing(opened):
        yield Raw(opened)


@pytest.fixture
def as_token(tmp_path, own_kafka):
    """Start a server with tokens: as_token("mallory") gives a connection; of topics that all may use."""
    tokens, entries = {}, []
    for who in ("mallory", "victim"):
        tokens[who], entry = new_token(who, {"public": ["read", "write"]})
        entries.append(entry)
    tokens["root"], entry = new_token("root", {"*": ["admin"]})
    (tmp_path / "tokens").write_text(json.dumps({"tokens": [*entries, entry]}))
    server = own_kafka("--tokens", str(tmp_path / "tokens"), "--memory", "64MiB")
    with Client(server.url, token=tokens["root"]) as http:
        http.create_topic("public", partitions=1)
    with ExitStack() as opened:

        def connect(who):
            raw = opened.enter_context(server.connection())
            assert raw.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})["error_code"] == codes.NONE
            named = f"\0{who}\0{tokens[who]}".encode()
            assert raw.ask(SASL_AUTHENTICATE, 0, {"auth_bytes": named})["error_code"] == codes.NONE
            return raw

        yield connect


def join(raw, group, size):
    """Join a group as a member that is silent from then on; return the error code."""
    timeouts = {"session_timeout_ms": 1_800_000, "rebalance_timeout_ms": 1_800_000}
    who = {"group_id": group, "member_id": "", "protocol_type": "consumer", **timeouts}
    return raw.ask(JOIN_GROUP, 1, {**who, "protocols": [{"name": "range", "metadata": bytes(size)}]})["error_code"]


def taken(call, most=20):
    """Return how often a call returned 0 before it did not."""
    for number in range(most):
        if call(number):
            return number
    raise AssertionError(f"{most} times nothing was refused")


def test_a_token_fills_the_memory_for_members_of_its_groups_and_another_one_joins(as_token):
    mallory, victim = as_token("mallory"), as_token("victim")
    assert join(victim, "first", 100) == codes.NONE
    assert taken(lambda number: join(mallory, f"m{number}", 1_500_000)) == 4  # of 8 MiB for all
    mallory.socket.close()
    assert join(victim, "second", 1_000_000) == codes.NONE


def test_an_address_fills_the_memory_for_members_of_its_groups_and_another_one_joins(own_kafka):
    server = own_kafka("--memory", "64MiB")
    with from_address(server, MALLORY) as mallory, from_address(server, VICTIM) as victim:
        assert taken(lambda number: join(mallory, f"m{number}", 1_500_000)) == 4
        assert join(victim, "second", 1_000_000) == codes.NONE


# --- members that a client leaves behind ------------------------------------------------------------------------------


def wish(payer="", member="", needs_id=False, **protocols):
    return Wish(member, None, 30.0, 60.0, "consumer", protocols or {"range": b""}, "", "", needs_id, payer=payer)


def with_group(story, most=1_000_000):
    async def run():
        room, forgotten = Shares(most), []
        group = Group("g", forgotten.append, room)
        try:
            await story(group, room)
        finally:
            group.close()

    run_in_virtual_time(run())


def test_members_that_never_ask_for_their_assignment_leave_when_their_sessions_end():
    async def story(group, room):
        assert (await group.join(wish("mallory", range=bytes(1000)))).code == codes.NONE
        assert room.of("mallory") > 1000
        await asyncio.sleep(31)
        assert (group.members, room.held) == ({}, 0)

    with_group(story)


def test_ids_that_nobody_joins_with_count_until_their_sessions_end():
    async def story(group, room):
        assert group._refusal(wish("mallory", range=bytes(745_000))) == codes.NONE
        for _ in range(5):
            assert (await group.join(wish("mallory", needs_id=True))).code == codes.MEMBER_ID_REQUIRED
        assert room.of("mallory") > 5000
        assert group._refusal(wish("mallory", range=bytes(745_000))) == codes.GROUP_MAX_SIZE_REACHED
        assert group._refusal(wish("victim", range=bytes(495_000))) == codes.NONE
        await asyncio.sleep(31)
        assert room.held == 0

    with_group(story)


def test_an_assignment_counts_against_the_share_of_the_leader_that_sent_it():
    async def story(group, room):
        leading = await group.join(wish("mallory"))
        following = asyncio.create_task(group.join(wish("victim")))
        await asyncio.sleep(0.01)
        leading, following = await asyncio.gather(group.join(wish("mallory", leading.member)), following)
        before = room.of("victim")
        given = SyncWish({following.member: bytes(300_000)})
        assert (await group.sync(leading.member, None, group.generation, given)).code == codes.NONE
        assert (room.of("victim"), room.of("mallory") > 300_000) == (before, True)
        group.leave(following.member, None)
        assert room.of("mallory") < 3000
        group.leave(leading.member, None)
        assert room.held == 0

    with_group(story)


def test_assignments_of_a_member_that_does_not_lead_are_not_kept_while_it_waits():
    class Sent(dict):
        pass

    async def story(group, room):
        leading = await group.join(wish("mallory"))
        following = asyncio.create_task(group.join(wish("mallory")))
        await asyncio.sleep(0.01)
        leading, following = await asyncio.gather(group.join(wish("mallory", leading.member)), following)

        def begin_sync():
            sent = Sent(unknown=bytes(300_000))
            return weakref.ref(sent), asyncio.create_task(group.sync(following.member, None, 2, SyncWish(sent)))

        kept, waiting = begin_sync()
        await asyncio.sleep(0.01)
        assert (kept(), waiting.done()) == (None, False)
        assert (await group.sync(leading.member, None, 2, SyncWish({}))).code == codes.NONE
        assert (await waiting).code == codes.NONE

    with_group(story)


def test_many_small_members_and_protocols_count_as_what_they_take():
    sizes = [wish(**{f"p{number}": b"" for number in range(count)}).size for count in (1, 100)]
    assert sizes[0] > 1000
    assert sizes[1] > 100 * 100


def test_a_caller_reserves_many_groups_and_another_one_finds_a_name(monkeypatch):
    monkeypatch.setattr(coordinators, "MAX_GROUPS", 8)

    async def story(groups, workers):
        found = coordinators.Coordinator(groups, workers, 1_000_000)
        for number in range(6):
            await found.consumers(f"m{number}", "mallory")
        with pytest.raises(GroupFull):
            await found.consumers("m6", "mallory")
        await found.consumers("m3", "mallory")  # it exists
        await found.consumers("v", "victim")
        for number in range(3):
            found.find_consumers(f"m{number}").forget_if_unused()
        groups.join("busy", ["t"])
        for _ in range(3):  # a reservation that fails counts no longer
            with pytest.raises(GroupConflict):
                await found.consumers("busy", "victim")
        found.close()

    with Broker(MemoryStorage()) as broker:
        broker.create_topic("t")
        workers = Workers("group", 1, 10)
        try:
            asyncio.run(story(broker.groups, workers))
        finally:
            workers.close()


# --- committed offsets ------------------------------------------------------------------------------------------------

NOTE = "\U0001f600" * 4096  # 16 KB in memory, 48 KB in the log


def commit(raw, group, *, topic="public", note=NOTE, partitions=20):
    """Commit offsets without a member; return the first error code."""
    part = {"committed_offset": 0, "committed_metadata": note}
    parts = [{"partition_index": number, **part} for number in range(partitions)]
    who = {"group_id": group, "generation_id": -1, "member_id": "", "retention_time_ms": -1}
    found = raw.ask(OFFSET_COMMIT, 2, {**who, "topics": [{"name": topic, "partitions": parts}]})
    return found["topics"][0]["partitions"][0]["error_code"]


def test_an_address_commits_all_metadata_that_it_may_and_another_one_commits_its_own(own_kafka):
    server = own_kafka("--memory", "32MiB")  # of which committed offsets have a quarter
    with Client(server.url) as http:
        http.create_topic("public", partitions=20)
    with from_address(server, MALLORY) as mallory, from_address(server, VICTIM) as victim:
        assert taken(lambda number: commit(mallory, f"m{number}")) == 6
        assert commit(mallory, "m0") == codes.NONE  # it takes no more than before
        assert commit(mallory, "m6", note="short", partitions=1) == codes.NONE
        assert commit(victim, "v") == codes.NONE
        assert commit(mallory, "m0", note="") == codes.NONE
        assert commit(mallory, "m6", partitions=5) == codes.NONE


def test_offsets_of_open_transactions_count_against_the_share_of_the_caller_that_stages_them(own_kafka):
    server = own_kafka("--memory", "32MiB")
    with Client(server.url) as http:
        http.create_topic("public", partitions=20)

    def stage(raw, name, times=1):
        """Stage offsets of a new transaction, perhaps again and again; return the last error code."""
        found = raw.ask(INIT_PRODUCER_ID, 0, {"transactional_id": name, "transaction_timeout_ms": 900_000})
        who = {"transactional_id": name, "producer_id": found["producer_id"], "producer_epoch": 0}
        assert raw.ask(ADD_OFFSETS_TO_TXN, 0, {**who, "group_id": name})["error_code"] == codes.NONE
        part = {"committed_offset": 0, "committed_metadata": NOTE}
        parts = [{"partition_index": number, **part} for number in range(20)]
        topics = [{"name": "public", "partitions": parts}]
        for _ in range(times):
            answer = raw.ask(TXN_OFFSET_COMMIT, 0, {**who, "group_id": name, "topics": topics})
        return answer["topics"][0]["partitions"][0]["error_code"]

    with from_address(server, MALLORY) as mallory, from_address(server, VICTIM) as victim:
        assert taken(lambda number: stage(mallory, f"m{number}", times=2)) == 9
        assert stage(mallory, "again") == codes.POLICY_VIOLATION  # final: clients repeat a timeout
        assert stage(victim, "v", times=5) == codes.NONE


def test_offsets_that_are_being_staged_count_already_and_no_longer_once_that_has_failed(monkeypatch):
    started, goes_on, stage = threading.Event(), threading.Event(), Journal.stage_offsets

    def fail_once(*given):
        if started.is_set():
            return stage(*given)
        started.set()
        assert goes_on.wait(HANG_SECONDS)
        raise StorageError("no space left")

    monkeypatch.setattr(Journal, "stage_offsets", fail_once)
    monkeypatch.setattr(transactions, "OFFSETS_PART", Limits().memory_bytes // 100_000)
    part = {"committed_offset": 0, "committed_metadata": NOTE}
    topics = [{"name": "t", "partitions": [{"partition_index": number, **part} for number in range(4)]}]
    with KafkaBroker(MemoryStorage()) as kafka, ExitStack() as opened:
        opened.callback(goes_on.set)
        kafka.broker.create_topic("t", partitions=4)
        raws, begun = [opened.enter_context(from_address(kafka, MALLORY)) for _ in range(2)], []
        for number, raw in enumerate(raws):
            name = {"transactional_id": f"x{number}"}
            found = raw.ask(INIT_PRODUCER_ID, 0, {**name, "transaction_timeout_ms": 60_000})
            who = {**name, "producer_id": found["producer_id"], "producer_epoch": 0, "group_id": "g"}
            assert raw.ask(ADD_OFFSETS_TO_TXN, 0, who)["error_code"] == codes.NONE
            begun.append({**who, "topics": topics})

        def second():
            answer = raws[1].ask(TXN_OFFSET_COMMIT, 0, begun[1])
            return answer["topics"][0]["partitions"][0]["error_code"]

        raws[0].send(TXN_OFFSET_COMMIT, 0, begun[0])
        assert started.wait(HANG_SECONDS)
        assert second() == codes.POLICY_VIOLATION
        goes_on.set()
        assert raws[0].response()
        assert second() == codes.NONE


# --- transactions -----------------------------------------------------------------------------------------------------


def begin(raw, name, topic="public"):
    """Begin a transaction of a new id; return the first error code."""
    found = raw.ask(INIT_PRODUCER_ID, 0, {"transactional_id": name, "transaction_timeout_ms": 900_000})
    if found["error_code"]:
        return found["error_code"]
    who = {"transactional_id": name, "producer_id": found["producer_id"], "producer_epoch": found["producer_epoch"]}
    added = raw.ask(ADD_PARTITIONS_TO_TXN, 0, {**who, "topics": [{"name": topic, "partitions": [0]}]})
    return added["results_by_topic"][0]["results_by_partition"][0]["partition_error_code"]


def test_an_address_opens_all_transactions_that_it_may_and_another_one_begins_its_own(monkeypatch):
    monkeypatch.setattr(room, "MOST_OPEN", 8)
    with KafkaBroker(MemoryStorage()) as kafka:
        kafka.broker.create_topic("public")
        with from_address(kafka, MALLORY) as mallory, from_address(kafka, VICTIM) as victim:
            assert taken(lambda number: begin(mallory, f"m{number}")) == 6
            mallory.socket.close()
            assert begin(victim, "v") == codes.NONE


def test_an_address_names_all_transactional_ids_that_it_may_and_another_one_finds_one(monkeypatch):
    monkeypatch.setattr(ids, "MOST_IDS", 8)
    with KafkaBroker(MemoryStorage()) as kafka:
        kafka.broker.create_topic("public")
        with from_address(kafka, MALLORY) as mallory, from_address(kafka, VICTIM) as victim:
            assert taken(lambda number: begin(mallory, f"m{number}")) == 6
            assert begin(victim, "v") == codes.NONE


@pytest.mark.proof
def test_a_token_opens_all_transactions_that_it_may_and_another_one_begins_its_own(as_token):
    mallory, victim = as_token("mallory"), as_token("victim")
    assert taken(lambda number: begin(mallory, f"m{number}"), most=1000) == 750
    mallory.socket.close()
    assert begin(victim, "v") == codes.NONE
