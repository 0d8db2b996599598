"""The program in this process: arguments and stdin in, exit code, bytes and lines out."""

from __future__ import annotations

import io
import itertools
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[bytes]:
        return self.out.splitlines()


@pytest.fixture
def cli(capsysbinary: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the program as `cli("append", log, "value", stdin=b"...")`."""

    def run(*words: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsysbinary.readouterr()
        code = main([str(word) for word in words])
        out, err = capsysbinary.readouterr()
        return Result(int(code), out, err.decode())

    return run


_numbers = itertools.count()


@pytest.fixture(params=["directory", "server"])
def topic(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Topic]:
    """An empty topic of three partitions: in a directory, and on a server."""
    if request.param == "directory":
        with seglog.Broker(tmp_path / "shop") as broker:
            broker.create_topic("orders", partitions=3)
        yield Topic(str(tmp_path / "shop" / "orders"), ())
        return
    url, name = request.getfixturevalue("url"), f"topic-{next(_numbers)}"
    with seglog.Client(url) as client:
        client.create_topic(name, partitions=3)
    yield Topic(f"{url}/{name}", ())


@dataclass(frozen=True)
class Topic:
    """What names a topic on the command line."""

    place: str
    options: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        return (self.place, *self.options)

    def partition(self, number: int) -> tuple[str, ...]:
        return (f"{self.place}/{number}", *self.options)


@pytest.fixture
def path(tmp_path: Any) -> Any:
    """Where a log may be made."""
    return tmp_path / "orders"
