"""What callers without a right learn and take: names in refusals, groups of others, pages of others, coded bodies."""

from __future__ import annotations

import gzip
import json
import socket
from pathlib import Path

import pytest

from seglog.errors import ConfigError
from seglog.server.rights.access import Access, new_token
from seglog.server.runtime.disk_space import FREED, Space
from seglog.storage import LocalStorage
from tests.server.conftest import Servers
from tests.waiting import HANG_SECONDS

PEOPLE = {
    "operator": ({"*": ["admin"]}, ()),
    "public": ({"public": ["read"]}, ()),
    "payer": ({"orders": ["read", "write"]}, ("billing", "bill-*")),
    "plain": ({"orders": ["read"]}, ()),
    "both": ({"orders": ["read"], "public": ["read"], "secret": ["read"]}, ()),
}


class Guarded:
    """A server with tokens, and requests in the name of their owners."""

    def __init__(self, servers, directory, **options):
        tokens = {name: new_token(name, *given) for name, given in PEOPLE.items()}
        file = directory / "tokens.json"
        file.write_text(json.dumps({"tokens": [entry for _, entry in tokens.values()]}))
        self.tokens = {name: token for name, (token, _) in tokens.items()}
        self.server = servers(tokens=str(file), **options)
        self.client = self.server.client()
        for topic in ("orders", "public", "secret"):
            self.ask("operator", "POST", "/topics", json={"name": topic})

    def ask(self, name, method, path, **options):
        headers = {"Authorization": f"Bearer {self.tokens[name]}"} if name in self.tokens else {}
        return self.client.request(method, path, headers=headers | options.pop("headers", {}), **options)

    def commit(self, name, group, *topics):
        offsets = {topic: {"0": 0} for topic in topics}
        return self.ask(name, "POST", f"/groups/{group}/offsets", json={"offsets": offsets})

    def join(self, name, group, *topics):
        return self.ask(name, "POST", f"/groups/{group}/members", json={"topics": topics})


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    servers = Servers(tmp_path_factory.mktemp)
    guarded = Guarded(servers, tmp_path_factory.mktemp("tokens"), limits={"groups": 6})
    yield guarded
    guarded.client.close()
    servers.end()


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_refused_group_names_no_topic_that_the_caller_may_not_see(guarded):
    assert guarded.commit("both", "wide", "orders", "secret").status_code == 204
    assert guarded.join("both", "waits", "secret").status_code == 200
    for group in ("wide", "waits"):
        for answer in (guarded.commit("plain", group, "orders"), guarded.join("plain", group, "orders")):
            assert answer.status_code == 403, answer.text
            assert "secret" not in answer.text
        for method, path in (("GET", ""), ("GET", "/offsets"), ("DELETE", "")):
            answer = guarded.ask("plain", method, f"/groups/{group}{path}")
            assert (answer.status_code, answer.json()["error"]) == (404, "GroupNotFound")
            assert "secret" not in answer.text


def test_a_partition_shows_only_groups_that_the_caller_may_use(guarded):
    assert guarded.commit("both", "spans", "orders", "secret").status_code == 204
    assert guarded.commit("both", "narrow", "orders").status_code == 204

    def groups(name):
        return guarded.ask(name, "GET", "/topics/orders/partitions/0").json()["groups"].keys()

    assert "narrow" in groups("plain")
    assert "spans" not in groups("plain")
    assert {"narrow", "spans"} <= groups("both")
    guarded.ask("operator", "DELETE", "/groups/spans")
    guarded.ask("operator", "DELETE", "/groups/narrow")


def test_health_without_a_token_names_neither_topics_nor_files(serve_with, tmp_path):
    guarded = Guarded(serve_with, tmp_path)
    guarded.client.close()
    server = guarded.server
    server.stop()
    (Path(server.root) / "orders" / "topic.json").write_text("{")
    server.start()
    with server.client() as guarded.client:
        for name in ("nobody", "public"):
            answer = guarded.ask(name, "GET", "/health")
            assert (answer.status_code, answer.json()["status"]) == (503, "failing")
            assert len(answer.json()["failures"]) == 1
            assert "orders" not in answer.text
            assert str(server.root) not in answer.text
        for name in ("plain", "operator"):
            (failure,) = guarded.ask(name, "GET", "/health").json()["failures"]
            assert failure["log"] == "orders"


# --- groups -----------------------------------------------------------------------------------------------------------


def test_a_group_that_a_token_owns_is_taken_by_no_other(guarded):
    for group in ("billing", "bill-2026"):
        for refused in (guarded.commit("public", group, "public"), guarded.join("plain", group, "orders")):
            assert refused.status_code == 403
            assert "payer" not in refused.text
        assert guarded.commit("payer", group, "orders").status_code == 204
        assert guarded.ask("plain", "GET", f"/groups/{group}").status_code == 403
        assert group not in guarded.ask("plain", "GET", "/groups").json()["groups"]
        assert group in guarded.ask("payer", "GET", "/groups").json()["groups"]
        assert guarded.ask("payer", "DELETE", f"/groups/{group}").status_code == 204


def test_an_owner_reclaims_a_group_that_another_took_before(guarded):
    assert guarded.commit("operator", "billing", "secret").status_code == 204  # as before the file named an owner
    state = guarded.ask("payer", "GET", "/groups/billing")
    assert (state.status_code, state.json()["committed"]) == (200, {})
    assert guarded.commit("payer", "billing", "orders").status_code == 204
    assert guarded.ask("payer", "GET", "/groups/billing/offsets").json() == {"offsets": {"orders": {"0": 0}}}
    assert guarded.commit("payer", "billing", "secret").status_code == 403
    assert guarded.ask("payer", "DELETE", "/groups/billing").status_code == 204
    assert guarded.ask("operator", "GET", "/groups/billing").status_code == 404


def test_a_token_creates_so_many_groups_and_no_more(guarded):
    for number in range(6):
        assert guarded.commit("public", f"mine-{number}", "public").status_code == 204
    for _ in range(2):
        assert guarded.commit("public", "mine-6", "public").status_code == 429
        assert guarded.join("public", "mine-6", "public").status_code == 429
        assert guarded.commit("public", "mine-0", "public").status_code == 204
    assert guarded.commit("both", "theirs", "public").status_code == 204
    assert guarded.ask("operator", "DELETE", "/groups/mine-1").status_code == 204
    assert guarded.commit("public", "mine-6", "public").status_code == 204


@pytest.mark.parametrize("groups", ["billing", [7], ["a\n"], [""], ["*"], ["a*b"], ["a**"], {"a": 1}])
def test_a_file_whose_groups_are_no_names_is_refused(tmp_path, groups):
    _, entry = new_token("a", {"orders": ["read"]})
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"tokens": [entry | {"groups": groups}]}))
    with pytest.raises(ConfigError, match="groups"):
        Access.of_file(file)


def test_a_token_may_own_a_group_of_any_name(tmp_path):
    _, entry = new_token("a", {"orders": ["read"]}, ["team/a", "été/*"])
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"tokens": [entry]}))
    access = Access.of_file(file)
    owned = {name: access.is_owned(name) for name in ("team/a", "team/ab", "été/x", "été")}
    assert owned == {"team/a": True, "team/ab": False, "été/x": True, "été": False}


# --- pages of others --------------------------------------------------------------------------------------------------

NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_a_page_of_another_site_asks_for_without_an_origin_is_refused(http, site):
    for path in ("/topics", "/metrics", "/health", "/records/0", "/", "/console/console.js"):
        answer = http.get(path, headers={"Sec-Fetch-Site": site, "Sec-Fetch-Dest": "image"})
        assert (answer.status_code, answer.json()["error"]) == (403, "Forbidden")
    assert http.get("/topics", headers={"Sec-Fetch-Site": site, **NAVIGATION}).status_code == 403
    assert http.get("/console", headers={"Sec-Fetch-Site": site, **NAVIGATION}).status_code == 200
    framed = {**NAVIGATION, "Sec-Fetch-Dest": "iframe"}
    assert http.get("/console", headers={"Sec-Fetch-Site": site, **framed}).status_code == 403


@pytest.mark.parametrize("site", ["same-origin", "none", None])
def test_the_console_and_what_a_user_types_are_answered(http, site):
    headers = {} if site is None else {"Sec-Fetch-Site": site}
    for path in ("/topics", "/health", "/", "/console/console.js"):
        assert http.get(path, headers=headers).status_code == 200


def test_no_browser_guesses_what_an_answer_is_or_loads_it_into_another_page(http, topic):
    name = topic()
    http.post(f"/topics/{name}/records", content=b"<script>alert(1)</script>")
    records = f"/topics/{name}/partitions/0/records"
    for path in (
        f"{records}/0",
        records,
        "/health",
        "/nowhere",
        f"/topics/{name}",
        "/console/console.js",
        "/topics/x y",
    ):
        answer = http.get(path)
        assert answer.headers.get_list("X-Content-Type-Options") == ["nosniff"]
        assert answer.headers.get_list("Cross-Origin-Resource-Policy") == ["same-origin"]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (b"GET /ready HTTP/1.1\r\nHost: localhost\r\n" + b"x: y\r\n" * 200 + b"\r\n", 431),
        (b"GET /" + b"x" * 70_000, 431),
    ],
)
def test_the_answer_to_a_malformed_request_is_not_taken_for_something_else(http, head, status):
    url = http.base_url
    with socket.create_connection((url.host, url.port), timeout=HANG_SECONDS) as raw:
        raw.sendall(head)
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    for line in (b"x-content-type-options: nosniff", b"cross-origin-resource-policy: same-origin"):
        assert answer.count(b"\r\n%b\r\n" % line) == 1


# --- coded bodies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "br", "identity, gzip", "zstd"])
def test_a_coded_body_is_not_taken_for_the_value(http, topic, coding):
    name = topic()
    for path, kind in (("records", "text/plain"), ("batches", "application/x-ndjson")):
        answer = http.post(
            f"/topics/{name}/{path}",
            content=gzip.compress(b'{"value": "v"}'),
            headers={"Content-Encoding": coding, "Content-Type": kind},
        )
        assert answer.status_code == 415
        assert answer.headers["Accept-Encoding"] == "identity"
    assert http.get(f"/topics/{name}").json()["records"] == 0
    answer = http.post(f"/topics/{name}/records", content=b"v", headers={"Content-Encoding": "identity"})
    assert answer.status_code == 200


@pytest.mark.parametrize("codings", [["gzip, chunked"], ["gzip", "chunked"], ["identity, chunked"]])
def test_a_transfer_coding_that_is_not_known_is_501(shared, http, topic, codings):
    name = topic()
    lines = "".join(f"Transfer-Encoding: {coding}\r\n" for coding in codings)
    with shared.connection() as wire:
        wire.send(f"POST /topics/{name}/records HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n", "1\r\nv\r\n0\r\n\r\n")
        status, _ = wire.answer()
    assert status == 501
    assert http.get(f"/topics/{name}").json()["records"] == 0


# --- figures and space ------------------------------------------------------------------------------------------------


def test_a_deleted_topic_leaves_no_series(http, topic):
    names = [topic() for _ in range(3)]
    for name in names:
        http.post(f"/topics/{name}/records", content=b"v")
    assert all(name in http.get("/metrics").text for name in names)
    for name in names:
        http.delete(f"/topics/{name}")
    text = http.get("/metrics").text
    assert not any(name in text for name in names)
    assert "seglog_free_bytes" in text


@pytest.mark.needs("prlimit")
def test_health_is_degraded_while_appends_fail_for_want_of_space_and_well_after_one_that_works(serve_with):
    server = serve_with(wrapper=("prlimit", "--fsize=100000"))  # the kernel refuses what makes a file longer
    with server.client() as http:
        assert http.get("/health").json()["status"] == "ok"
        refused = http.post("/topics/default/records", content=b"v" * 200_000)
        assert (refused.status_code, refused.json()["retriable"]) == (503, True)
        health = http.get("/health")
        assert (health.status_code, health.json()["status"]) == (503, "degraded")
        (failure,) = health.json()["failures"]
        assert (failure["log"], failure["doing"], failure["failures"]) == ("default", "append", 1)
        assert health.json()["free_bytes"] > 0
        assert http.post("/records", content=b"v").status_code == 200
        assert http.get("/health").json()["status"] == "ok"


def test_a_full_disk_is_told_until_it_takes_records_again(tmp_path):
    free = [1000]
    space = Space(lambda: free[0])
    storage = LocalStorage("/dev")
    file = storage.open("full", writable=True)  # the kernel refuses each write to it with ENOSPC
    for _ in range(2):
        with pytest.raises(OSError) as caught:
            file.pwrite(b"v", 0)
        space.failed("orders", caught.value)
    (shortage,) = space.shortages()
    assert (shortage.what, shortage.times) == ("orders", 2)
    assert "No space left" in shortage.error
    space.worked("other")
    assert space.shortages() == [shortage]
    space.worked("orders")
    assert space.shortages() == []
    space.failed("orders", caught.value)
    free[0] += FREED
    assert space.shortages() == []
    space.failed("orders", ValueError("another failure"))
    assert space.shortages() == []
