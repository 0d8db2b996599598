"""What each kind of caller may do, for every operation that the server declares, and what a refusal tells."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from seglog.server.rights.access import new_token
from seglog.server.routes import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

    from seglog.server.api.operations import Operation

HERE = ("orders", "default")
CALLERS: dict[str, dict[str, list[str]]] = {
    "admin on another topic": {"other": ["admin"]},
    "read": {name: ["read"] for name in HERE},
    "write": {name: ["write"] for name in HERE},
    "admin": {name: ["admin"] for name in HERE},
    "read on all": {"*": ["read"]},
    "admin on all": {"*": ["admin"]},
}
STRANGERS = {"no token": None, "a wrong token": "wrong"}

OWN_RULES = {
    "fetch": "read",
    "lag": "read",
    "join": "read",
    "commit": "read",
    "group": "read",
    "offsets": "read",
    "heartbeat": "read",
    "leave": "read",
    "delete_group": "admin",
    "create_topic": "admin",
    "access": "token",
    "copies": "token",
    "groups": "token",
    "topics": "token",
}
"""The right on each topic that the body names or the group reads, of operations that are declared with "token"."""
IN_A_GROUP = {"group", "offsets", "heartbeat", "leave", "delete_group"}

COPY = "0123456789abcdef"
QUERIES = {
    **{name: {"copy": COPY, "offset": 0} for name in ("pin_partition", "pin_groups")},
    **{name: {"copy": COPY} for name in ("unpin_partition", "unpin_groups")},
    "offsets_at": {"timestamp": "0"},
    "by_key": {"key": "k"},
    "append": {"partition": "0"},
}
LONG = 3600.0  # seconds: a member of an earlier test must not be dropped in between
BODIES: dict[str, Any] = {
    "append": b"v",
    "append_batch": b'{"value": "v"}\n',
    "fetch": {"positions": {"orders": {"0": 0}}},
    "join": {"topics": ["orders"], "session_timeout": LONG},
    "heartbeat": {"generation": 1},
    "commit": {"offsets": {"orders": {"0": 0}}, "member": "m"},
    "lag": {"positions": {"orders": {"0": 0}}},
    "append_default": b"v",
    "truncate_default": {"truncate_index": 1},
    "create_topic": {"name": "orders"},
    "alter_topic": {"retention": {"age": 3600}},
    "truncate": {"offset": 1},
    "delete_before": {"offset": 1},
    "fence": {"term": 1},
}


MORE = itertools.count(2)  # of partitions: each call needs more than the one before


class Guarded(NamedTuple):
    """A server with tokens, and a client of it."""

    client: httpx.Client
    tokens: dict[str, str]

    def ask(self, who: str, operation: Operation, **names: str) -> httpx.Response:
        """Send a request of an operation, which is complete and valid. names: in place of those in the path."""
        path = operation.path.format(
            **{"topic": "orders", "partition": 0, "offset": 0, "index": 0, "group": "g", "member": "m"}
            | {"file": "console.js"}
            | names
        )
        body, options = BODIES.get(operation.name), {}
        if operation.name == "add_partitions":
            body = {"partitions": next(MORE)}
        if isinstance(body, bytes):
            options["content"] = body
        elif body is not None:
            options["json"] = body
        if operation.name == "append_batch":
            options["headers"] = {"Content-Type": "application/x-ndjson"}
        method = "HEAD" if operation.name == "tail" else operation.method  # the body of a tail is endless
        return self.call(who, method, path, params=QUERIES.get(operation.name), **options)

    def call(self, who: str, method: str, path: str, **options: Any) -> httpx.Response:
        token = self.tokens.get(who, STRANGERS.get(who))
        headers = options.pop("headers", {}) | ({} if token is None else {"Authorization": f"Bearer {token}"})
        return self.client.request(method, path, headers=headers, **options)

    def prepare(self) -> None:
        """Make the topics and the group that a request may need; both may have been deleted by an allowed one."""
        for name in ("orders", "other"):
            self.call("admin on all", "POST", "/topics", json={"name": name})
        self.call("admin on all", "POST", "/topics/orders/records", content=b"v")
        self.call("admin on all", "POST", "/records", content=b"v")
        join = self.call(
            "admin on all",
            "POST",
            "/groups/g/members",
            json={"topics": ["orders"], "member": "m", "session_timeout": LONG},
        )
        assert join.status_code == 200, join.text

    def state(self) -> list[Any]:
        paths = ["/topics", "/topics/orders", "/topics/default", "/topics/other", "/groups", "/groups/g"]
        found = [self.call("admin on all", "GET", path).json() for path in paths]
        for topic in (found[1], found[2]):
            for partition in topic["partition_states"]:
                del partition["durable_offset"]  # the server syncs once a second
        return found


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    from tests.server.conftest import Servers  # noqa: PLC0415 - pytest has loaded it by now, under this name

    servers = Servers(tmp_path_factory.mktemp)
    tokens = {name: new_token(name, rights) for name, rights in CALLERS.items()}
    file: Path = tmp_path_factory.mktemp("tokens") / "tokens.json"
    file.write_text(json.dumps({"tokens": [entry for _, entry in tokens.values()]}))
    with servers(tokens=str(file)).client() as client:
        guarded = Guarded(client, {name: token for name, (token, _) in tokens.items()})
        guarded.prepare()
        yield guarded
    servers.end()


def has(who: str, right: str, topic: str) -> bool:
    rights = CALLERS.get(who, {})
    return bool({right, "admin"} & {*rights.get(topic, []), *rights.get("*", [])})


def may(who: str, operation: Operation) -> bool:
    """Whether a caller may do it, by the declaration of the operation."""
    needed = OWN_RULES[operation.name] if operation.needs == "token" else operation.needs
    if needed in ("nothing", "token"):
        return needed == "nothing" or who in CALLERS
    without_topic = operation.needs != "token" and operation.topic is None and "{topic}" not in operation.path
    return has(who, needed, "*" if without_topic else operation.topic or "orders")


def test_only_an_admin_of_all_topics_fences_a_server(guarded: Guarded) -> None:
    fence = next(operation for operation in OPERATIONS if operation.name == "fence")
    for who in (*STRANGERS, *CALLERS):
        if not may(who, fence):  # an allowed one would end all changes
            assert guarded.ask(who, fence).status_code in (401, 403)


@pytest.mark.parametrize(
    "operation", [one for one in OPERATIONS if one.name != "fence"], ids=lambda operation: operation.name
)
def test_every_operation_asks_for_the_right_it_declares_and_refused_it_changes_nothing(
    guarded: Guarded, operation: Operation
) -> None:
    changes = operation.method != "GET"
    for who in (*STRANGERS, *CALLERS):
        if changes or operation.name in IN_A_GROUP or who == next(iter(STRANGERS)):
            guarded.prepare()
        allowed = may(who, operation)
        before = guarded.state() if changes and not allowed else None
        answer = guarded.ask(who, operation)
        if allowed:
            assert answer.status_code in (200, 201, 204, 409), (who, answer.text)
        elif who in STRANGERS:
            assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer"), (who, answer.text)
        elif operation.name in IN_A_GROUP and not has(who, "read", "orders"):
            assert answer.json()["error"] == ("UnknownMember" if operation.name == "heartbeat" else "GroupNotFound")
        else:
            assert answer.status_code == 403, (who, answer.text)
        if before is not None:
            assert guarded.state() == before, who


ON_A_TOPIC = [operation for operation in OPERATIONS if "{topic}" in operation.path]
ON_A_GROUP = [operation for operation in OPERATIONS if operation.name in IN_A_GROUP]


def without_date(answer: httpx.Response) -> tuple[int, dict[str, str], str]:
    return answer.status_code, {name: value for name, value in answer.headers.items() if name != "date"}, answer.text


@pytest.mark.parametrize("operation", ON_A_TOPIC, ids=lambda operation: operation.name)
@pytest.mark.parametrize("who", [*STRANGERS, "admin on another topic"])
def test_a_topic_without_a_right_looks_the_same_whether_it_exists(
    guarded: Guarded, operation: Operation, who: str
) -> None:
    there = without_date(guarded.ask(who, operation, topic="orders"))
    for names in ({"topic": "ordert"}, {"topic": "orders", "partition": "9"}, {"topic": "ordert", "partition": "9"}):
        status, headers, text = without_date(guarded.ask(who, operation, **names))
        assert (status, headers, text.replace("ordert", "orders")) == there


@pytest.mark.parametrize("operation", ON_A_GROUP, ids=lambda operation: operation.name)
@pytest.mark.parametrize("who", [*STRANGERS, "admin on another topic", "write"])
def test_a_group_without_a_right_looks_the_same_whether_it_exists(
    guarded: Guarded, operation: Operation, who: str
) -> None:
    guarded.prepare()
    there = without_date(guarded.ask(who, operation, group="g"))
    status, headers, text = without_date(guarded.ask(who, operation, group="h"))
    assert (status, headers, text.replace("'h'", "'g'").replace('"h"', '"g"')) == there


@pytest.mark.parametrize("name", ["fetch", "lag", "join", "commit"])
def test_a_topic_in_a_body_without_a_right_looks_the_same_whether_it_exists(guarded: Guarded, name: str) -> None:
    operation = next(one for one in OPERATIONS if one.name == name)
    path, who = operation.path.format(group="mine"), "admin on another topic"
    answers = []
    for topic in ("orders", "ordert"):
        body = json.loads(json.dumps(BODIES[name]).replace("orders", topic))
        status, headers, text = without_date(guarded.call(who, "POST", path, json=body))
        answers.append((status, headers, text.replace("ordert", "orders")))
    assert answers[0] == answers[1]
    assert answers[0][0] == 403
