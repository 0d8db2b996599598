"""Tables in a REST catalog and in an object store; and no secret in what a table stores or an error shows."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from seglog.cli import main
from seglog.errors import InvalidArgument, LogLocked, SeglogError, StorageError
from seglog.table import TableSync, sync
from seglog.table.describe import describe
from seglog.table.merging import FEWEST
from tests.archive.conftest import BUCKET, s3
from tests.table.conftest import Row, Shop
from tests.table.rest_catalog import RestCatalog, rest_catalog

__all__ = ["s3"]  # a fixture
Properties = dict[str, str]


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[tuple[RestCatalog, Properties]]:
    (tmp_path / "catalog").mkdir()
    with rest_catalog(tmp_path / "catalog", secrets.token_hex(16)) as both:
        yield both


def rows(properties: Properties, name: str = "orders") -> list[Row]:
    found = load_catalog("seglog", **properties).load_table(f"seglog.{name}").scan().to_arrow().to_pylist()
    return sorted(
        (
            row["partition"],
            row["offset"],
            round(row["timestamp"].timestamp() * 1_000_000),
            row["key"],
            row["value"],
            tuple((one["key"], one["value"]) for one in row["headers"] or ()),
        )
        for row in found
    )


def work(shop: Shop, place: str, catalog: Properties) -> None:
    """Rounds with appends, a truncate and a merge."""
    with TableSync(shop.place, place, active=True, latest=True, schema="infer", catalog=catalog) as tables:
        for round_ in range(FEWEST):
            shop.append(6, f"{round_}-")
            if round_ == 3:
                shop.topic.partition(0).truncate(2)
                shop.topic.append(b'{"id": 1}', key=b"k0")
                shop.topic.sync()
            tables.step()
    assert rows(catalog) == shop.records()


def be_second(shop: Shop, catalog: RestCatalog, properties: Properties) -> None:
    """Make a round that the catalog refuses: another program commits its round first."""

    def other() -> None:
        catalog.before_commit = lambda: None
        with pytest.MonkeyPatch.context() as patch:  # as in another process: without the lock of this one
            patch.setattr("seglog.table.synchronize.TableSync._lock", lambda *_: None)
            sync(shop.place, shop.warehouse, active=True, catalog=properties)

    catalog.before_commit = other
    with pytest.raises(LogLocked, match="try again"):
        sync(shop.place, shop.warehouse, active=True, catalog=properties)


def test_a_table_is_committed_through_a_rest_catalog(shop: Shop, rest: tuple[RestCatalog, Properties]) -> None:
    _, properties = rest
    work(shop, str(shop.warehouse), properties)
    assert not (shop.warehouse / "catalog.db").exists()
    assert [one.table for one in describe(shop.warehouse, properties)] == ["orders", "orders_latest"]


def test_of_two_commits_at_once_the_catalog_refuses_the_second(
    shop: Shop, rest: tuple[RestCatalog, Properties]
) -> None:
    catalog, properties = rest
    shop.append(10)
    sync(shop.place, shop.warehouse, active=True, catalog=properties)
    shop.append(10)
    be_second(shop, catalog, properties)
    assert rows(properties) == shop.records()
    assert sync(shop.place, shop.warehouse, active=True, catalog=properties)[0].records == 0


def test_a_table_is_in_an_object_store(shop: Shop, s3: str, tmp_path: Path) -> None:
    secret = secrets.token_hex(16)
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "s3.endpoint": s3,
        "s3.access-key-id": "test",
        "s3.secret-access-key": secret,
        "s3.region": "us-east-1",
    }
    work(shop, f"s3://{BUCKET}/{secrets.token_hex(4)}", properties)
    assert secret.encode() not in (tmp_path / "catalog.db").read_bytes()


def test_no_secret_is_stored_or_shown(
    shop: Shop,
    rest: tuple[RestCatalog, Properties],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    catalog, properties = rest
    secret = secrets.token_hex(16)
    caplog.set_level("DEBUG")
    tokens = f"{properties['uri']}/v1/oauth/tokens"
    login = {"type": "rest", "uri": properties["uri"], "credential": f"user:{secret}", "oauth2-server-uri": tokens}
    given = {**login, "s3.secret-access-key": secret}
    options = [one for name, value in given.items() for one in ("--catalog", f"{name}={value}")]
    shop.append(10)
    assert main(["table", "sync", str(shop.place), str(shop.warehouse), "--all", "--latest", *options]) == 0
    assert main(["table", "info", str(shop.warehouse), "--json", *options]) == 0
    wrong = {**properties, "token": f"wrong-{secret}"}
    with pytest.raises(SeglogError) as refused:
        sync(shop.place, shop.warehouse, active=True, catalog=wrong)
    with pytest.raises(StorageError) as away:
        sync(shop.place, shop.warehouse, active=True, catalog={**given, "uri": "http://127.0.0.1:9"})
    said = capsys.readouterr()
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    for hidden in (secret, catalog.token):
        assert not any(hidden.encode() in content for content in written)
        for text in (said.out, said.err, str(refused.value), str(away.value), caplog.text):
            assert hidden not in text


def test_credentials_can_be_in_the_environment(shop: Shop, rest: tuple[RestCatalog, Properties]) -> None:
    _, properties = rest
    shop.append(3)
    command = [sys.executable, "-m", "seglog", "table", "sync", str(shop.place), str(shop.warehouse), "--all"]
    command += ["--catalog", "type=rest", "--catalog", f"uri={properties['uri']}"]
    environment = {**os.environ, "PYICEBERG_CATALOG__SEGLOG__TOKEN": properties["token"]}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert rows(properties) == shop.records()


def test_a_location_with_credentials_is_refused_because_tables_store_locations(shop: Shop) -> None:
    with pytest.raises(InvalidArgument, match="credentials") as refused:
        sync(shop.place, "s3://user:hidden@bucket/warehouse", catalog={"type": "rest", "uri": "http://127.0.0.1:9"})
    assert "hidden" not in str(refused.value)


def test_columns_that_are_added_while_another_program_commits_do_not_hide_its_rows(
    shop: Shop, rest: tuple[RestCatalog, Properties]
) -> None:
    catalog, properties = rest
    shop.append(10)
    sync(shop.place, shop.warehouse, active=True, schema="infer", catalog=properties)
    for number in range(4):
        shop.topic.append(b'{"new": 1}', key=b"%d" % number)
    shop.topic.sync()
    be_second(shop, catalog, properties)
    sync(shop.place, shop.warehouse, active=True, catalog=properties)
    assert rows(properties) == shop.records()
