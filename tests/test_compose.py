"""deploy/compose.yaml: its services run here as processes, with its own commands and those of the guide to Docker.

Its dashboard names only metrics that they have.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.parsing import parse
from tests.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DEPLOY = Path(__file__).parents[1] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PARTS = ("_bucket", "_sum", "_count", "_created")  # of a histogram or a counter
SEGLOG = Path(sys.executable).with_name("seglog")
GUIDE = DEPLOY.parent / "docs" / "howto" / "docker.md"
# What the queries of a dashboard consist of, apart from metrics and labels.
FUNCTIONS = {"sum", "max", "by", "rate", "histogram_quantile", "label_values", "instance", "le"}


def test_every_file_that_a_service_uses_exists_and_every_volume_and_secret_is_declared():
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (DEPLOY / source).is_file() if source.startswith("./") else source in COMPOSE["volumes"]
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"])
        assert set(service.get("depends_on", ())) <= set(SERVICES)
        assert "build" in service or re.search(r":v?\d+\.\d+\.\d+$", service["image"])
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert (DEPLOY / SERVICES["server"]["build"]["context"] / SERVICES["server"]["build"]["dockerfile"]).is_file()
    for name in ("prometheus.yaml", "grafana-sources.yaml", "grafana-dashboards.yaml"):
        assert yaml.safe_load((DEPLOY / name).read_text())


def tokens(directory: Path) -> tuple[Path, str]:
    """Run tokens.sh in a copy of the directory; return where its files are, and the operator's token."""
    shutil.copy(DEPLOY / "tokens.sh", directory)
    environment = {**os.environ, "PATH": f"{SEGLOG.parent}{os.pathsep}{os.environ['PATH']}"}
    command = ["sh", str(directory / "tokens.sh")]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert again.returncode != 0
    assert "remove it" in again.stderr
    return directory / "secrets", shown.rpartition(" ")[2].strip()


def guide() -> list[list[str]]:
    """Return the words of every command that the guide to Docker shows."""
    text = "".join(re.findall(r"```console\n(.*?)```", GUIDE.read_text("utf-8"), flags=re.DOTALL))
    lines = [line.removeprefix("$ ") for line in text.replace("\\\n", " ").splitlines() if line.startswith("$ ")]
    return [shlex.split(one, comments=True) for line in lines for one in line.split(" && ")]


def seglog_part(words: list[str]) -> list[str]:
    """Return what a command passes to `seglog`, in a container or here; nothing if it does not."""
    if words[:3] == ["docker", "compose", "run"]:
        return words[next(at for at, word in enumerate(words) if word in SERVICES) + 1 :]
    if words[0] == "seglog" or words[:2] == ["docker", "run"]:  # the image has the same name
        return words[words.index("seglog") + 1 :]
    return []


def test_what_the_guide_to_docker_passes_to_seglog_is_a_command_of_it():
    with pytest.raises(click.UsageError, match="--no-such"):
        parse(["serve", "/data", "--no-such"])
    parsed = [parse(part) for part in map(seglog_part, guide()) if part]
    assert [context.info_name for context in parsed] == ["token", "promote", "serve"]


def test_the_other_commands_of_the_guide_to_docker_name_services_and_files_that_exist():
    others = [words for words in guide() if not seglog_part(words)]
    for words in others:
        match words:
            case ["docker", "compose", "stop", *services]:
                assert services
                assert set(services) <= set(SERVICES)
            case ["docker", "compose", "up", *options]:
                assert set(options) <= {"--build", "-d"}
            case ["docker", "build", "-f", file, "-t", "seglog", "."]:
                assert (DEPLOY.parent / file).is_file()
            case ["docker", "run", *options, "seglog"]:
                assert "/data" in " ".join(options)
            case ["cd", directory]:
                assert (DEPLOY.parent / directory).is_dir()
            case ["sh", script]:
                assert (DEPLOY / script).is_file()
            case ["curl", "-s", address]:
                ports = [port for one in SERVICES.values() for port in one.get("ports", ())]
                assert any(f":{address.partition(':')[2].partition('/')[0]}:" in port for port in ports)
            case _:
                raise AssertionError(words)
    assert len(others) > 5


class Service:
    """A service of the file as a process: a command of it, with the addresses and directories of this machine."""

    def __init__(self, command: Sequence[str], replaced: dict[str, str], environment: dict[str, str]) -> None:
        words = [replaced.get(word, word) for word in command]
        self._process = subprocess.Popen(
            [SEGLOG, *words], stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )
        assert self._process.stdout is not None
        self.url = next(
            found[1] for line in self._process.stdout if (found := re.search(r"listening on (http://\S+:\d+)", line))
        ).replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - the address of the container

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.communicate(timeout=HANG_SECONDS)


class Running(NamedTuple):
    """The services that run, an operator's token and that of the metrics, and what `/data` and others are here."""

    server: Service
    follower: Service
    operator: str
    watcher: str
    followed: dict[str, str]


def metrics(url: str, token: str) -> dict[str, set[str]]:
    """Return the metrics of a server: name -> the names of its labels."""
    text = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"}, timeout=HANG_SECONDS).text
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        found.setdefault(family.name + ("_total" if family.type == "counter" else ""), set())  # also without a sample
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run the store, the server and the follower, with a record and a group."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - slow to import

    place = tmp_path_factory.mktemp("compose")
    secrets, operator = tokens(place)
    store = ThreadedMotoServer(port=0)
    store.start()
    host, port = store.get_host_and_port()
    environment = {**SERVICES["server"]["environment"], "AWS_ENDPOINT_URL": f"http://{host}:{port}"}
    httpx.put(f"{environment['AWS_ENDPOINT_URL']}/archive", timeout=HANG_SECONDS).raise_for_status()
    names = {"3000": "0", "/run/secrets/server": str(secrets / "server.json")}
    server = Service(SERVICES["server"]["command"], {**names, "/data": str(place / "server")}, environment)
    followed = {"/data": str(place / "follower"), "http://server:3000": server.url}
    followed |= {**names, "/run/secrets/follower": str(secrets / "follower")}
    follower = Service(SERVICES["follower"]["command"], followed, {})
    with httpx.Client(
        base_url=server.url, headers={"Authorization": f"Bearer {operator}"}, timeout=HANG_SECONDS
    ) as client:
        client.post("/topics", json={"name": "orders", "partitions": 1}).raise_for_status()
        client.post("/topics/orders/records?ack=archived", content=b"one").raise_for_status()
        client.post("/groups/billing/offsets", json={"offsets": {"orders": {"0": 0}}}).raise_for_status()
        until(lambda: client.get(f"{follower.url}/topics/orders/partitions/0/records/0").content == b"one")
    yield Running(server, follower, operator, (secrets / "metrics").read_text().strip(), followed)
    follower.stop()
    server.stop()
    store.stop()


def test_a_record_reaches_the_follower_and_the_archive(running):
    server, follower, operator, watcher, _ = running
    with httpx.Client(headers={"Authorization": f"Bearer {operator}"}, timeout=HANG_SECONDS) as client:
        assert client.get(f"{follower.url}/topics/orders/partitions/0/records/0").content == b"one"
        assert client.post(f"{follower.url}/topics/orders/records", content=b"no").status_code == 403
        assert client.get(f"{server.url}/health").json()["status"] == "ok"
    assert metrics(server.url, watcher)["seglog_archive_age_seconds"] == set()


def test_the_monitoring_guide_lists_every_metric_and_the_dashboard_names_only_what_exists(running):
    server, follower, _, watcher, _ = running
    known = metrics(server.url, watcher)
    for name, labels in metrics(follower.url, watcher).items():
        known.setdefault(name, set()).update(labels)
    board = json.loads((DEPLOY / "grafana.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    queries += [one["query"]["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    assert len(queries) > 20
    page = (DEPLOY.parent / "docs" / "howto" / "monitoring.md").read_text()
    listed = set(re.findall(r"\bseglog_\w+", page))
    assert {name for name in known if not name.endswith(PARTS)} - listed == set()
    _, _, alerts = page.partition("\n## What to alert on\n")
    alerts = set(re.findall(r"\bseglog_\w+", alerts.partition("\n## ")[0]))
    assert {name for name in alerts if not any(name in query for query in queries)} == set()
    known.setdefault("seglog_table_age_seconds", set())  # only of a server with --table
    known.setdefault("seglog_table_failures", {"topic"})  # as above
    for query in [*queries, *re.findall(r"`([^`\n]*seglog_[^`\n]*)`", page)]:
        named = set(re.findall(r"\bseglog_\w+", query))
        assert named <= known.keys() or query.startswith("curl"), query
        labels = set(re.findall(r"(\w+)=~", query)) | {
            label.strip() for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(",")
        }
        assert labels - FUNCTIONS <= set().union(*(known[name] for name in named & known.keys())), query
    places = [panel["gridPos"] for panel in board["panels"]]
    cells = [
        (one["x"] + right, one["y"] + down) for one in places for right in range(one["w"]) for down in range(one["h"])
    ]
    assert len(set(cells)) == len(cells)  # no panel covers another
    assert max(right for right, _ in cells) < 24  # the columns of a dashboard
    assert len({panel["id"] for panel in board["panels"]}) == len(places)


def test_the_follower_takes_over_with_the_commands_of_the_guide(running):  # the last one: it stops the services
    stop, *commands = [
        words for words in guide() if words[:3] in (["docker", "compose", "stop"], ["docker", "compose", "run"])
    ]
    promote, serve = map(seglog_part, commands)
    for name in stop[3:]:
        getattr(running, name).stop()
    subprocess.run([SEGLOG, *(running.followed.get(word, word) for word in promote)], check=True, capture_output=True)
    leader = Service(serve, running.followed, {})
    try:
        with httpx.Client(
            base_url=leader.url, headers={"Authorization": f"Bearer {running.operator}"}, timeout=HANG_SECONDS
        ) as client:
            assert client.post("/topics/orders/records", content=b"two").json()["offset"] == 1
            records = [client.get(f"/topics/orders/partitions/0/records/{offset}").content for offset in range(2)]
            assert records == [b"one", b"two"]
    finally:
        leader.stop()
