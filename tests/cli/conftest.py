"""The program in this process: arguments and stdin in, exit code, bytes and lines out."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from seglog.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable


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


@pytest.fixture
def path(tmp_path: Any) -> Any:
    """Where a log may be made."""
    return tmp_path / "orders"
