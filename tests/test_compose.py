"""deploy/compose.yaml: its services run here as processes, with its own commands, and its dashboard knows them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPLOY = Path(__file__).parents[1] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PARTS = ("_bucket", "_sum", "_count", "_created")  # of a histogram or a counter
SEGLOG = Path(sys.executable).with_name("seglog")
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
    assert "remove it" in again.stderr
    return directory / "secrets", shown.rpartition(" ")[2].strip()


class Service:
    """A service of the file as a process: its command, with the addresses and directories of this machine."""

    def __init__(self, name: str, replaced: dict[str, str], environment: dict[str, str]) -> None:
        words = [replaced.get(word, word) for word in SERVICES[name]["command"]]
        self._process = subprocess.Popen(
            [SEGLOG, *words], stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )
        assert self._process.stdout is not None
        self.url = next(
            found[1] for line in self._process.stdout if (found := re.search(r"listening on (http://\S+:\d+)", line))
        ).replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - the address of the container

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=60)


def metrics(url: str, token: str) -> dict[str, set[str]]:
    """Return the metrics of a server: name -> the names of its labels."""
    text = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"}, timeout=30).text
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        found.setdefault(family.name + ("_total" if family.type == "counter" else ""), set())  # also without a sample
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Service, str, str]]:
    """Run the store, the server and the follower, with a record and a group.

    Yields server, follower, an operator's token, and the metrics' one.
    """
    pytest.importorskip("obstore")
    pytest.importorskip("moto.server")
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - checked above

    place = tmp_path_factory.mktemp("compose")
    secrets, operator = tokens(place)
    store = ThreadedMotoServer(port=0)
    store.start()
    host, port = store.get_host_and_port()
    environment = {**SERVICES["server"]["environment"], "AWS_ENDPOINT_URL": f"http://{host}:{port}"}
    httpx.put(f"{environment['AWS_ENDPOINT_URL']}/archive").raise_for_status()
    names = {"3000": "0", "/run/secrets/server": str(secrets / "server.json")}
    server = Service("server", {**names, "/data": str(place / "server")}, environment)
    followed = {"/data": str(place / "follower"), "http://server:3000": server.url}
    follower = Service("follower", {**names, **followed, "/run/secrets/follower": str(secrets / "follower")}, {})
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {operator}"}, timeout=30) as client:
        client.post("/topics", json={"name": "orders", "partitions": 1}).raise_for_status()
        client.post("/topics/orders/records?ack=archived", content=b"one").raise_for_status()
        client.post("/groups/billing/offsets", json={"offsets": {"orders": {"0": 0}}}).raise_for_status()
        until(lambda: client.get(f"{follower.url}/topics/orders/partitions/0/records/0").content == b"one")
    yield server, follower, operator, (secrets / "metrics").read_text().strip()
    follower.stop()
    server.stop()
    store.stop()


def test_a_record_reaches_the_follower_and_the_archive(running):
    server, follower, operator, watcher = running
    with httpx.Client(headers={"Authorization": f"Bearer {operator}"}, timeout=30) as client:
        assert client.get(f"{follower.url}/topics/orders/partitions/0/records/0").content == b"one"
        assert client.post(f"{follower.url}/topics/orders/records", content=b"no").status_code == 403
        assert client.get(f"{server.url}/health").json()["status"] == "ok"
    assert metrics(server.url, watcher)["seglog_archive_age_seconds"] == set()


def test_the_guide_lists_every_metric_and_the_dashboard_names_only_what_exists(running):
    server, follower, _, watcher = running
    known = metrics(server.url, watcher)
    for name, labels in metrics(follower.url, watcher).items():
        known.setdefault(name, set()).update(labels)
    board = json.loads((DEPLOY / "grafana.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    queries += [one["query"]["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    assert len(queries) > 20
    guide = (DEPLOY.parent / "docs" / "howto" / "monitoring.md").read_text()
    listed = set(re.findall(r"\bseglog_\w+", guide))
    assert {name for name in known if not name.endswith(PARTS)} - listed == set()
    _, _, alerts = guide.partition("\n## What to alert on\n")
    alerts = set(re.findall(r"\bseglog_\w+", alerts.partition("\n## ")[0]))
    assert {name for name in alerts if not any(name in query for query in queries)} == set()
    known.setdefault("seglog_table_age_seconds", set())  # only of a server with --table
    for query in [*queries, *re.findall(r"`([^`\n]*seglog_[^`\n]*)`", guide)]:
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
