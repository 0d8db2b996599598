"""docs/options.md: every option of a log, a topic, a server, a command and a program.

What a class has is from its docstring, the others are from the parsers (`commands`).

`python -m tools.docs_site.options` writes the page; a test compares the two.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from seglog.cli.commands import serve
from seglog.config import LogConfig, Retention
from seglog.kafka.settings import KafkaSettings
from seglog.policies import Policies
from seglog.server.settings import Limits, Settings
from seglog.settings import arguments_of, declared
from seglog.topic.idempotency.memory import OnceWindow
from tools.docs_site import commands

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = Path(__file__).parents[2] / "docs" / "options.md"
HEAD = """# All options

Written by `python -m tools.docs_site.options`. Sizes are in bytes, times in seconds, unless stated
otherwise; on the command line they have units (`64MiB`, `15m`).
"""
VARIABLES = {
    "SEGLOG_TOKEN": "the token for a server, for the client, the commands and Spark",
    "SEGLOG_CACHE_DIR": "where compiled kernels are kept if the package's directory is read-only",
    "SEGLOG_KERNELS": "`jit`: let numba compile the kernels although the wheel contains them",
    "SEGLOG_TRACEBACK": "`1`: the command prints Python's traceback of an error",
}
_ENTRY = re.compile(r"^(\w+): (.*)$")


class Family(NamedTuple):
    """Options that are given together. flags: name of a field -> option of a command; "" if there is none."""

    kind: type
    about: str
    command: str
    flags: Mapping[str, str]


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _flags(config: type) -> dict[str, str]:
    return {name: one.option for name, one in declared(config).items() if one.option}


def _settings_flags() -> dict[str, str]:
    renamed = {
        "certificate": "--tls-cert",
        "key": "--tls-key",
        "archive_seconds": "--archive-interval",
        "table_seconds": "--table-interval",
        "follow_token": "--token-file",
    }
    names = [field.name for field in dataclasses.fields(Settings) if field.name != "limits"]
    return {name: renamed.get(name, _flag(name)) for name in names}


def _limits_flags() -> dict[str, str]:
    found: dict[str, str] = {}
    for option, name, *_ in serve._LIMITS:
        found.setdefault(name, option)
    return found


def families() -> list[Family]:
    """Return all options, in the order of the page."""
    kafka = {"host": "--kafka", "port": "--kafka", "advertised": "--kafka-advertise"}
    return [
        Family(
            LogConfig, "Of a log, or of every partition of a topic; stored with it.", "topics create", _flags(LogConfig)
        ),
        Family(Retention, "`LogConfig(retention=Retention(...))`.", "topics create", _flags(Retention)),
        Family(
            Policies,
            "Of a topic: `broker.create_topic(name, policies=Policies(...))`.",
            "topics create",
            _flags(Policies),
        ),
        Family(OnceWindow, "Of a topic: `seglog.Topic.open(path, once_window=OnceWindow(...))`.", "", {}),
        Family(Settings, "Of a server: `seglog.server.serve(root, Settings(...))`.", "serve", _settings_flags()),
        Family(Limits, "Of a server: `Settings(limits=Limits(...))`.", "serve", _limits_flags()),
        Family(KafkaSettings, "Of Kafka's protocol.", "serve", kafka | {"topic_partitions": "--kafka-partitions"}),
    ]


def default(field: dataclasses.Field[object]) -> str:
    """Return the default of an option as a reader writes it."""
    value = field.default
    if value is dataclasses.MISSING or dataclasses.is_dataclass(value):
        return ""
    size = field.name.endswith("bytes") or field.name in ("bytes", "keys")
    if size and isinstance(value, int) and value >= 1024 and value % 1024 == 0:
        return f"`{value}` ({_size(value)})"
    return "" if value is None else f"`{value!r}`"


def _size(value: int) -> str:
    for unit, name in ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB")):
        if value % unit == 0:
            return f"{value // unit} {name}"
    return f"{value} B"


def section(family: Family) -> str:
    """Return the table of one class."""
    texts = arguments_of(family.kind)
    head = f"\n## {family.kind.__name__}\n\n{family.about}\n"
    where = f"`seglog {family.command}`" if family.command else ""
    rows = [f"\n| option | default | {where} | |\n|---|---|---|---|\n"]
    for field in dataclasses.fields(family.kind):
        if field.name.startswith("_"):
            continue
        flag = family.flags.get(field.name, "")
        shown = f"`{flag}`" if flag else ""
        rows.append(
            f"| `{field.name}` | {default(field)} | {shown} | {texts[field.name].replace('|', chr(92) + '|')} |\n"
        )
    return head + "".join(rows)


def page() -> str:
    """Return the whole page."""
    variables = "".join(f"| `{name}` | {about} |\n" for name, about in VARIABLES.items())
    return (
        HEAD
        + "".join(section(family) for family in families())
        + "\n## Environment variables\n\n| variable | meaning |\n|---|---|\n"
        + variables
        + commands.sections()
        + "\nThe options of Spark's source and sink are on the page on [Spark](spark.md).\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
