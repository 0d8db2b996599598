"""The pages of the Python reference: a list of names each; mkdocstrings fills in signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, NamedTuple

import seglog
import seglog.aio
import seglog.replication
import seglog.serializers
import seglog.storage
import seglog.telemetry
import seglog.types

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


class Page(NamedTuple):
    """A page of the reference. module: whose names it shows; about: its first paragraph."""

    file: str
    title: str
    module: str
    about: str
    names: tuple[str, ...]


def _home(module: str, name: str) -> str:
    """Return where a public name is defined: mkdocstrings reads the source there."""
    loaded = importlib.import_module(module)
    if place := _homes(loaded).get(name):
        return f"seglog.{place}"
    found = getattr(loaded, name)
    if inspect.isroutine(found) or inspect.isclass(found):
        return f"{found.__module__}.{found.__qualname__}"
    return f"{module}.{name}"


def _public(module: ModuleType) -> tuple[str, ...]:
    """Return the public names of a module: those that it lists, or else those that it defines."""
    listed = {*getattr(module, "__all__", ()), *_homes(module)} or {
        name for name, found in vars(module).items() if getattr(found, "__module__", "") == module.__name__
    }
    return tuple(
        name for name in sorted(listed) if not name.startswith("_") and not inspect.ismodule(getattr(module, name))
    )


def _homes(module: ModuleType) -> dict[str, str]:
    """Return where a module loads its names from when they are first used."""
    found: dict[str, str] = getattr(module, "_HOME", {})
    return found


def is_error(name: str) -> bool:
    """Whether a name of `seglog` is one of its errors."""
    found = getattr(seglog, name)
    return isinstance(found, type) and issubclass(found, seglog.SeglogError)


def pages() -> list[Page]:
    """Return the pages of the reference."""
    names = _public(seglog)
    return [
        Page(
            "seglog.md",
            "seglog",
            "seglog",
            "The names of the package itself. `import seglog` loads a name when it is first used.",
            tuple(name for name in names if not is_error(name)),
        ),
        Page(
            "types.md",
            "seglog.types",
            "seglog.types",
            "The types of public signatures, for annotations and `isinstance`: `from seglog.types import Tail`.",
            tuple(name for name in _public(seglog.types) if name not in _public(seglog.aio)),
        ),
        Page(
            "aio.md",
            "seglog.aio",
            "seglog.aio",
            "Logs, topics and brokers for asyncio and trio, with the calls of the blocking classes.",
            _public(seglog.aio),
        ),
        Page(
            "replication.md",
            "seglog.replication",
            "seglog.replication",
            "Copies that follow a leader.",
            _public(seglog.replication),
        ),
        Page(
            "serializers.md",
            "seglog.serializers",
            "seglog.serializers",
            "Keys and values as objects.",
            _public(seglog.serializers),
        ),
        Page(
            "storage.md",
            "seglog.storage",
            "seglog.storage",
            "The contract of a directory of files, and what implements it.",
            _public(seglog.storage),
        ),
        Page(
            "telemetry.md",
            "seglog.telemetry",
            "seglog.telemetry",
            "Traces and metrics with OpenTelemetry.",
            _public(seglog.telemetry),
        ),
        Page(
            "errors.md",
            "Errors",
            "seglog",
            "Every error of seglog is a `SeglogError`; many are a built-in error, too (`LogNotFound` is a "
            "`FileNotFoundError`).",
            tuple(name for name in names if is_error(name)),
        ),
    ]


def text(page: Page) -> str:
    """Return a page as Markdown for mkdocstrings."""
    entries = [
        f'\n::: {_home(page.module, name)}\n    options:\n      heading: "{name}"\n      toc_label: "{name}"\n'
        for name in page.names
    ]
    return f"# {page.title}\n\n{page.about}\n" + "".join(entries)


def index(shown: list[Page]) -> str:
    """Return the page that lists all names of the reference."""
    parts = ["# Python API\n\nAll public names. [Stability](../stability.md) describes what they promise.\n"]
    for page in shown:
        links = ", ".join(f"[`{name}`]({page.file}#{_home(page.module, name)})" for name in page.names)
        parts.append(f"\n## {page.title}\n\n{page.about}\n\n{links}\n")
    return "".join(parts)


def write(target: Path) -> None:
    """Write the pages of the reference into a directory."""
    target.mkdir(parents=True, exist_ok=True)
    shown = pages()
    for page in shown:
        (target / page.file).write_text(text(page), "utf-8")
    (target / "index.md").write_text(index(shown), "utf-8")
