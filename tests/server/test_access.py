"""Who comes in, and what they may do there: tokens with rights per topic, TLS, loopback, and pages of others."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import sys
from contextlib import closing

import httpx
import pytest
import uvloop

from seglog.errors import ConfigError
from seglog.server.http.handshakes import Handshakes
from seglog.server.http.protocol import BoundedProtocol
from seglog.server.rights.access import Access, new_token
from seglog.server.settings import Settings
from tests.server.in_process import serving
from tests.tls import TlsPeer, server_context
from tests.waiting import HANG_SECONDS, until

PEOPLE = {
    "reader": {"orders": ["read"]},
    "writer": {"orders": ["write"]},
    "owner": {"orders": ["admin"]},
    "both": {"orders": ["read", "write"], "other": ["read"]},
    "operator": {"*": ["admin"]},
    "watcher": {"*": ["read"]},
}


class Guarded:
    """A server with tokens, and clients of it by name."""

    def __init__(self, serve_with, directory):
        tokens = {name: new_token(name, rights) for name, rights in PEOPLE.items()}
        file = directory / "tokens.json"
        file.write_text(json.dumps({"tokens": [entry for _, entry in tokens.values()]}))
        self.server = serve_with(tokens=str(file))
        self.tokens = {name: token for name, (token, _) in tokens.items()}
        self.client = self.server.client()

    def ask(self, name, method, path, **options):
        headers = {"Authorization": f"Bearer {self.tokens[name]}"} if name in self.tokens else {}
        return self.client.request(method, path, headers=headers, **options)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    from tests.server.conftest import Servers  # noqa: PLC0415 - pytest has loaded it by now, under this name

    servers = Servers(tmp_path_factory.mktemp)
    guarded = Guarded(servers, tmp_path_factory.mktemp("tokens"))
    for name in ("orders", "other"):
        assert guarded.ask("operator", "POST", "/topics", json={"name": name}).status_code == 201
    guarded.ask("operator", "POST", "/topics/orders/records", content=b"v")
    yield guarded
    guarded.client.close()
    servers.end()


@pytest.mark.parametrize("header", ["Bearer", "Bearer wrong", "Basic {}", "{}", "bearer  {}x", "Bearer {} {}"])
def test_a_header_that_is_no_known_token_is_401(guarded, header):
    given = header.format(guarded.tokens["operator"], guarded.tokens["operator"])
    answer = httpx.get(f"{guarded.server.url}/topics", headers={"Authorization": given}, timeout=HANG_SECONDS)
    assert answer.status_code == 401


def test_a_stranger_learns_nothing_from_how_a_request_is_refused(guarded):
    for path in ("/topics/orders", "/topics/nobody", "/topics/orders?x=1", "/topics/!!", "/groups/g", "/groups/nobody"):
        assert guarded.ask("nobody", "GET", path).status_code == 401


def test_one_without_a_right_does_not_learn_whether_a_topic_is_there(guarded):
    for name in ("other", "nobody"):
        assert guarded.ask("reader", "GET", f"/topics/{name}").status_code == 403
        positions = {"positions": {name: {"0": 0}}}
        assert guarded.ask("reader", "POST", "/fetch", json=positions).status_code == 403
        assert guarded.ask("reader", "POST", "/groups/x/members", json={"topics": [name]}).status_code == 403


def test_a_listing_shows_what_one_has_a_right_on(guarded):
    def seen(who):
        return [one["name"] for one in guarded.ask(who, "GET", "/topics").json()["topics"]]

    assert seen("reader") == seen("writer") == seen("owner") == ["orders"]
    assert seen("both") == ["orders", "other"]
    assert seen("operator") == seen("watcher") == ["default", "orders", "other"]


def test_groups_are_shown_to_those_who_may_read_all_that_they_read(guarded):
    both = {"offsets": {"orders": {"0": 0}, "other": {"0": 0}}}
    assert guarded.ask("both", "POST", "/groups/wide/offsets", json=both).status_code == 204
    assert "wide" in guarded.ask("both", "GET", "/groups").json()["groups"]
    assert "wide" not in guarded.ask("reader", "GET", "/groups").json()["groups"]
    assert guarded.ask("reader", "GET", "/groups/wide").status_code == 404


def test_a_member_of_others_is_neither_kept_alive_nor_thrown_out_by_one_without_the_right(guarded):
    join = guarded.ask("both", "POST", "/groups/wide2/members", json={"topics": ["other"]}).json()
    path = f"/groups/wide2/members/{join['member']}"
    beat = guarded.ask("reader", "POST", f"{path}/heartbeat", json={"generation": 1})
    assert beat.json()["error"] == "UnknownMember"
    assert guarded.ask("reader", "DELETE", path).json()["error"] == "GroupNotFound"
    assert guarded.ask("both", "DELETE", path).status_code == 204


def test_nobody_enters_a_group_that_reads_more_than_he_may(guarded):
    member = guarded.ask("both", "POST", "/groups/wide3/members", json={"topics": ["other"]}).json()["member"]
    path = "/groups/wide3/members"
    assert guarded.ask("reader", "POST", path, json={"topics": ["orders"]}).status_code == 403
    assert guarded.ask("reader", "POST", path, json={"topics": ["orders"], "member": member}).status_code == 403
    assert guarded.ask("both", "DELETE", f"{path}/{member}").status_code == 204
    commit = guarded.ask("both", "POST", "/groups/wide3/offsets", json={"offsets": {"other": {"0": 0}}})
    assert commit.status_code == 204
    commit = guarded.ask("reader", "POST", "/groups/wide3/offsets", json={"offsets": {"orders": {"0": 0}}})
    assert commit.status_code == 403
    assert guarded.ask("both", "GET", "/groups/wide3/offsets").json() == {"offsets": {"other": {"0": 0}}}


def test_a_topic_is_made_by_those_who_may_administer_that_name(guarded):
    assert guarded.ask("owner", "POST", "/topics", json={"name": "mine"}).status_code == 403
    assert guarded.ask("owner", "POST", "/topics", json={"name": "orders"}).status_code == 409
    assert guarded.ask("writer", "POST", "/topics", json={"name": "orders"}).status_code == 403


def test_metrics_are_for_those_who_may_read_everything(guarded):
    statuses = {who: guarded.ask(who, "GET", "/metrics").status_code for who in (*PEOPLE, "nobody")}
    assert {who for who, status in statuses.items() if status == 200} == {"operator", "watcher"}
    assert statuses["nobody"] == 401


def test_the_laminarmq_paths_ask_for_rights_on_the_default_topic(guarded):
    assert guarded.ask("reader", "GET", "/index_bounds").status_code == 403
    assert guarded.ask("reader", "POST", "/records", content=b"v").status_code == 403
    assert guarded.ask("watcher", "POST", "/rpc/truncate", json={"truncate_index": 0}).status_code == 403
    assert guarded.ask("operator", "POST", "/records", content=b"v").status_code == 200
    assert guarded.ask("watcher", "GET", "/records/0").content == b"v"


@pytest.mark.parametrize(
    "path", ["/", "/console", "/console/console.js", "/docs", "/health", "/ready", "/openapi.json"]
)
def test_some_things_are_free(guarded, path):
    assert guarded.ask("nobody", "GET", path).status_code == 200


def test_no_answer_and_no_message_holds_a_token(guarded):
    token = guarded.tokens["reader"]
    for path in ("/topics/other", "/topics?x=1", "/nowhere"):
        assert token not in guarded.ask("reader", "GET", path).text
    assert token not in (guarded.server.root.parent).joinpath("nothing").name


# --- files of tokens, and where a server listens ----------------------------------------------------------------------


ENTRY = '{"tokens": [{"name": "a", "sha256": "' + "0" * 64 + '", "rights": {"t": BAD}}]}'
FILES = ["", "[]", "{}", '{"tokens": {}, "x": 1}', '{"tokens": [{"name": "a", "sha256": "00", "rights": {}}]}']
DEEP = "[" * 100_000  # Python's JSON gives up with a RecursionError


@pytest.mark.parametrize("text", [*FILES, DEEP, *(ENTRY.replace("BAD", bad) for bad in ('"read"', '["own"]', "7"))])
def test_a_file_that_is_none_of_tokens_is_refused_and_named(tmp_path, text):
    file = tmp_path / "tokens.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"tokens\.json"):
        Access.of_file(file)


def test_beyond_this_machine_the_server_asks_for_tokens():
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):  # noqa: S104 - refused is what is tested
        with pytest.raises(ConfigError, match="--tokens"):
            Settings(host=host)
        Settings(host=host, anonymous=True)
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        Settings(host=host)


def test_a_second_server_on_the_same_root_or_port_is_refused(serve_with):
    server = serve_with()
    with pytest.raises(AssertionError, match="LogLocked"):
        serve_with(root=server.root)
    with pytest.raises(AssertionError, match="cannot listen"):
        serve_with(port=server.port)


# --- pages of others --------------------------------------------------------------------------------------------------


def test_a_page_of_another_origin_may_not_use_the_server(http, shared):
    for origin in ("http://evil.example", f"http://127.0.0.1:{shared.port + 1}", "null", "http://[bad", ""):
        refused = http.post("/topics", json={"name": "evil"}, headers={"Origin": origin})
        assert (refused.status_code, refused.json()["error"]) == (403, "Forbidden")
        assert "Access-Control-Allow-Origin" not in refused.headers
    assert http.get("/topics", headers={"Origin": shared.url}).status_code == 200


def test_a_name_that_was_pointed_at_this_machine_is_refused(http, shared):
    for host in ("evil.example", f"evil.example:{shared.port}", "127.0.0.1.evil.example", "[::1].evil", "localhost.x"):
        assert http.get("/topics", headers={"Host": host}).status_code == 403
    for host in ("localhost", f"LOCALHOST:{shared.port}", "[::1]:1", "127.0.0.1"):
        assert http.get("/topics", headers={"Host": host}).status_code == 200


# --- TLS --------------------------------------------------------------------------------------------------------------


def test_over_tls_everything_works_as_without(serve_with, certificate):
    server = serve_with(certificate=certificate[0], key=certificate[1])
    assert server.url.startswith("https://")
    trusted = ssl.create_default_context(cafile=certificate[0])
    with server.client(verify=trusted) as http:
        assert http.post("/records", content=b"v" * 3_000_000).json() == {"write_index": 0}
        assert http.get("/records/0").content == b"v" * 3_000_000
        with http.stream("GET", "/topics/default/tail?start=earliest") as events:
            assert next(events.iter_lines()).startswith(":")
    with pytest.raises(httpx.ConnectError), server.client() as stranger:
        stranger.get("/ready")
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(f"http://127.0.0.1:{server.port}/ready", timeout=HANG_SECONDS)
    assert server.process.poll() is None


def test_a_request_may_come_with_the_end_of_the_handshake(certificate):
    async def answer(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    def ask(address):
        with socket.create_connection(address, timeout=HANG_SECONDS) as wire:
            peer = TlsPeer(wire, certificate[0])
            peer.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            received = b""
            while not received.endswith(b"\r\n\r\nok"):
                received += peer.receive()

    async def run():
        async with serving(Handshakes(server_context(certificate), BoundedProtocol), answer) as (address, state):
            await asyncio.to_thread(ask, address)
            await asyncio.to_thread(until, lambda: not state.connections)

    uvloop.run(run())


def test_a_connection_that_ends_instead_of_its_handshake_does_not_count(certificate):
    async def run():
        handshakes = Handshakes(server_context(certificate), BoundedProtocol)
        async with serving(handshakes, None) as (address, state):
            for _ in range(20):
                with closing(socket.create_connection(address, timeout=HANG_SECONDS)) as peer:
                    peer.shutdown(socket.SHUT_WR)
                    await asyncio.to_thread(peer.recv, 1)
            await asyncio.to_thread(until, lambda: not handshakes.pending)
            assert not state.connections

    uvloop.run(run())


def test_tls_needs_uvloop(certificate, tmp_path):
    program = "import sys; sys.modules['uvloop'] = None; from seglog.cli import main; sys.exit(main())"
    options = ["serve", tmp_path / "root", "--port", "0", "--tls-cert", certificate[0], "--tls-key", certificate[1]]
    command = [sys.executable, "-c", program, *options]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert ended.returncode == 2
    assert "TLS needs uvloop" in ended.stderr


def test_a_certificate_needs_its_key(serve_with, certificate, tmp_path):
    with pytest.raises(AssertionError, match="both a certificate and its key"):
        serve_with(certificate=certificate[0])
    with pytest.raises(AssertionError, match="cannot be used"):
        serve_with(certificate=certificate[0], key=str(tmp_path / "none.pem"))
