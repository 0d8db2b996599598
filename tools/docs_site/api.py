"""The pages of the Python reference: a list of names each; mkdocstrings fills in signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import seglog
import seglog.aio
import seglog.client
import seglog.replication
import seglog.serializers
import seglog.server
import seglog.spark
import seglog.storage
import seglog.table
import seglog.telemetry
import seglog.testing
import seglog.types

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

STABILITY = Path(__file__).parents[2] / "docs" / "stability.md"
OF_JOBS = (
    *("ingest.ingest", "ingest.read_source", "ingest.create_topic", "ingest.IngestReport"),
    *("snapshot.snapshot", "snapshot.bootstrap", "snapshot.Bootstrap"),
    *("export.export", "export.ExportReport", "load.load", "replay.replay", "replay.classroom.Classroom"),
    *("audit.audit", "audit.read_checkpoint", "audit.AuditReport", "audit.LogAudit", "audit.Finding"),
    *("compact.compact", "compact.CompactedLog"),
)
"""The names of the packages of `seglog.spark` that are programs, too."""
OF_SPARK = ("session.local_session", "progress.lag", "progress.Lag", "read.explain.explain_read")
OF_ARCHIVE = ("lease.Lease", "lease.ObjectLease", "promotion.promote_from_archive", "promotion.Promotion")
OF_AUDIT = ("audit_keys", "KeyAudit", "read_checkpoint")
OF_LAMINARMQ = ("open_laminarmq", "LaminarmqLog", "LaminarmqRecord")
OWN_TESTS = "internals"  # of seglog.testing: for the tests of seglog only


class Page(NamedTuple):
    """A page of the reference.

    module: whose names it shows, those of its modules with a dot; about: its first paragraph.
    """

    file: str
    title: str
    module: str
    about: str
    names: tuple[str, ...]


def _home(module: str, name: str) -> str:
    """Return where a public name is defined: mkdocstrings reads the source there."""
    place, _, last = f"{module}.{name}".rpartition(".")
    loaded = importlib.import_module(place)
    if home := _homes(loaded).get(last):
        return f"seglog.{home}"
    found = getattr(loaded, last)
    if inspect.isroutine(found) or inspect.isclass(found):
        return f"{found.__module__}.{found.__qualname__}"
    return f"{place}.{last}"


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


def _of_modules(package: ModuleType, *, without: str) -> tuple[str, ...]:
    """Return the public names of the modules of a package, each with its module."""
    modules = [one.name for one in pkgutil.iter_modules(package.__path__) if one.name != without]
    return tuple(
        f"{name}.{one}" for name in modules for one in _public(importlib.import_module(f"{package.__name__}.{name}"))
    )


def promised() -> set[str]:
    """Return the modules that docs/stability.md lists as public."""
    _, _, text = STABILITY.read_text("utf-8").partition("\n## What is public\n")
    listed, _, _ = text.partition("\n## ")
    return {name.removesuffix(".*") for name in re.findall(r"`(seglog(?:\.\w+)*(?:\.\*)?)`", listed)}


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
            "client.md",
            "seglog.client",
            "seglog.client",
            "Clients of a server. What they return is in `seglog.types`.",
            _public(seglog.client),
        ),
        Page(
            "server.md",
            "seglog.server",
            "seglog.server",
            "A server in a program of yours. Needs the extra `seglog[server]`.",
            _public(seglog.server),
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
            "table.md",
            "seglog.table",
            "seglog.table",
            "Topics as Apache Iceberg tables. Needs the extra `seglog[table]`.",
            _public(seglog.table),
        ),
        Page(
            "spark.md",
            "seglog.spark",
            "seglog.spark",
            'Functions for Spark. Format "seglog" and its options are in the guide to Spark. Needs the extra '
            "`seglog[spark]`.",
            (*_public(seglog.spark), *OF_SPARK, *OF_JOBS),
        ),
        Page(
            "telemetry.md",
            "seglog.telemetry",
            "seglog.telemetry",
            "Traces and metrics with OpenTelemetry.",
            _public(seglog.telemetry),
        ),
        Page(
            "testing.md",
            "seglog.testing",
            "seglog.testing",
            "Tools for tests: a suite for storages, failures, power cuts, damage, and a broker for Kafka's clients.",
            _of_modules(seglog.testing, without=OWN_TESTS),
        ),
        Page(
            "archive.md",
            "seglog.archive",
            "seglog.archive",
            "Leases, and the takeover of a lost writer by its archive. "
            "Needs the extra `seglog[archive]` for object storage.",
            OF_ARCHIVE,
        ),
        Page("audit.md", "seglog.topic.audit", "seglog.topic.audit", "A check of the keys of a topic.", OF_AUDIT),
        Page(
            "laminarmq.md",
            "seglog.log.laminarmq",
            "seglog.log.laminarmq",
            "The files of laminarmq, read only.",
            OF_LAMINARMQ,
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


def index(shown: Sequence[Page]) -> str:
    """Return the page that lists all names of the reference."""
    parts = ["# Python API\n\nAll public names. [Stability](../stability.md) describes what they promise.\n"]
    for page in shown:
        links = ", ".join(f"[`{name}`]({page.file}#{_home(page.module, name)})" for name in page.names)
        parts.append(f"\n## {page.title}\n\n{page.about}\n\n{links}\n")
    return "".join(parts)


def write(target: Path, shown: Sequence[Page]) -> None:
    """Write pages of the reference, and the one that lists their names, into a directory."""
    target.mkdir(parents=True, exist_ok=True)
    for page in shown:
        (target / page.file).write_text(text(page), "utf-8")
    (target / "index.md").write_text(index(shown), "utf-8")
