"""A server of Iceberg's REST catalog, as far as tables need it: pyiceberg's SQL catalog behind HTTP, with a token."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Table

STATUS = {
    NoSuchTableError: 404,
    NoSuchNamespaceError: 404,
    CommitFailedException: 409,
    ForbiddenError: 403,
    TableAlreadyExistsError: 409,
    NamespaceAlreadyExistsError: 409,
}


class RestCatalog:
    """The answers of the server. before_commit: called before each commit, outside of it."""

    def __init__(self, directory: Path, token: str) -> None:
        self.token = token
        self.before_commit: Callable[[], None] = lambda: None
        self._catalog = SqlCatalog("server", uri=f"sqlite:///{directory}/server.db", warehouse=f"file://{directory}")
        self._mutex = threading.Lock()

    def answer(self, method: str, path: list[str], body: bytes) -> Any:
        if path == ["config"]:
            return {"defaults": {}, "overrides": {}}
        asked = json.loads(body or b"{}")
        if method == "POST" and len(path) == 4:
            self.before_commit()
        with self._mutex:
            return self._answer(method, path, asked)

    def _answer(self, method: str, path: list[str], asked: Any) -> Any:
        if path == ["namespaces"]:
            self._catalog.create_namespace(tuple(asked["namespace"]))
            return {"namespace": asked["namespace"], "properties": {}}
        namespace = path[1]
        if len(path) == 2:
            return {"namespace": [namespace], "properties": self._catalog.load_namespace_properties(namespace)}
        if len(path) == 3 and method == "GET":
            found = self._catalog.list_tables(namespace)
            return {"identifiers": [{"namespace": [namespace], "name": name[-1]} for name in found]}
        if len(path) == 3:
            return self._shown(self._create(namespace, asked))
        identifier = (namespace, path[3])
        table = self._catalog.load_table(identifier)
        if method == "POST":
            asked["identifier"] = {"namespace": [namespace], "name": path[3]}
            request = CommitTableRequest.model_validate(asked)
            self._catalog.commit_table(table, request.requirements, request.updates)
            table = self._catalog.load_table(identifier)
        return self._shown(table)

    def _create(self, namespace: str, asked: Any) -> Table:
        return self._catalog.create_table(
            (namespace, asked["name"]),
            Schema.model_validate(asked["schema"]),
            location=asked["location"],
            partition_spec=PartitionSpec.model_validate(asked["partition-spec"]),
            properties=asked["properties"],
        )

    @staticmethod
    def _shown(table: Table) -> Any:
        metadata = json.loads(table.metadata.model_dump_json())
        return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}

    def close(self) -> None:
        self._catalog.engine.dispose()


class _Handler(BaseHTTPRequestHandler):
    catalog: RestCatalog

    def _reply(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, answer = 200, None
        if self.path.endswith("/oauth/tokens"):
            answer = {"access_token": self.catalog.token, "token_type": "bearer", "expires_in": 3600}
        elif self.headers.get("Authorization") != f"Bearer {self.catalog.token}":
            status, answer = (
                401,
                {"error": {"message": "not authorized", "type": "NotAuthorizedException", "code": 401}},
            )
        else:
            try:
                answer = self.catalog.answer(self.command, self.path.partition("?")[0].strip("/").split("/")[1:], body)
            except tuple(STATUS) as error:
                status = STATUS[type(error)]
                answer = {"error": {"message": str(error), "type": type(error).__name__, "code": status}}
        sent = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(sent)

    do_GET = do_POST = do_HEAD = _reply  # noqa: N815 - the names that http.server calls

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def rest_catalog(directory: Path, token: str) -> Iterator[tuple[RestCatalog, dict[str, str]]]:
    """Run a server; yield its catalog, and the properties of a client."""
    catalog = RestCatalog(directory, token)
    handler = type("Handler", (_Handler,), {"catalog": catalog})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            host, port = server.server_address[:2]
            yield catalog, {"type": "rest", "uri": f"http://{host!s}:{port}", "token": token}
        finally:
            server.shutdown()
            thread.join()
            catalog.close()
