"""A setting is declared once, and is the same in Python, over HTTP, on the command line and in the docs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import seglog
from seglog import ConfigError, LogConfig, Policies, Retention
from seglog.cli.config_options import alter_options, changes_given, topic_options, typed
from seglog.errors import InvalidArgument
from seglog.server.api.configs import POLICIES, RETENTION, schemas
from seglog.server.api.configs import typed as of_request
from seglog.server.api.models import AlterTopic, CreateTopic
from seglog.server.api.operations import _model_of
from seglog.settings import MIN_SECONDS, MOST_CHARACTERS, Declared, Kind, declared
from tests.waiting import HANG_SECONDS
from tools.docs_site import options as page

SETTINGS = [
    pytest.param(kind, one, id=f"{kind.__name__}.{one.name}")
    for kind in (LogConfig, Retention, Policies)
    for one in declared(kind).values()
]


def sound(one: Declared) -> list[Any]:
    """Return values that are allowed, both bounds among them."""
    setting = one.setting
    match setting.kind:
        case Kind.CHOICE:
            values: list[Any] = list(one.choices)
        case Kind.SWITCH:
            values = [True, False]
        case Kind.DURATION:
            values = [setting.least, MIN_SECONDS, 1.5, setting.most]
        case Kind.TEXTS:
            values = [{"flush.ms": "0100"}, {"n" * MOST_CHARACTERS: "t" * MOST_CHARACTERS}]
        case _:
            values = [setting.least, setting.most]
    return [*values, None] if one.optional else values


def wrong(one: Declared) -> list[Any]:
    """Return values that are just outside of the bounds, or of another type."""
    setting = one.setting
    match setting.kind:
        case Kind.CHOICE | Kind.SWITCH:
            values: list[Any] = ["", 2]
        case Kind.DURATION:
            values = [MIN_SECONDS / 2, -1, setting.most * 1.01, "1 h"]
        case Kind.SHARE:
            values = [-0.01, 1.01, "half"]
        case Kind.TEXTS:
            values = [5, {"a": 1}, {"a": "t" * (MOST_CHARACTERS + 1)}, {str(number): "" for number in range(101)}]
        case _:
            values = [setting.least - 1, setting.most + 1, "1"]
    return values if one.optional else [*values, None]


PARTS = {LogConfig: "", Retention: "retention", Policies: "policies"}
MODELS = {LogConfig: "ConfigModel", Retention: RETENTION, Policies: POLICIES}


def body(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    """Return values as a change has them."""
    return {PARTS[kind]: values} if PARTS[kind] else values


def of_changes(changes: dict[str, Any]) -> tuple[LogConfig, Policies]:
    """Return what a new topic has with changes."""
    found = dict(changes)
    policies = found.pop("policies", Policies())
    return LogConfig(**found), policies


def over_http(kind: type, values: dict[str, Any]) -> tuple[LogConfig, Policies]:
    """Return what a request that creates a topic gives it."""
    given = body(kind, values) if kind is Policies else {"config": body(kind, values)}
    settings = _model_of(CreateTopic, json.dumps({"name": "t", **given}).encode()).settings
    return settings["config"] or LogConfig(), settings["policies"] or Policies()


def on_the_command_line(one: Declared, text: str) -> tuple[LogConfig, Policies]:
    """Return what an option gives a new topic."""
    from seglog.cli.frame import Args  # noqa: PLC0415 - only here

    (option,) = (each for each in topic_options() if one.option in each.opts)
    if one.setting.kind is Kind.SWITCH and not one.optional:
        value: Any = text == "yes"
    else:
        value = option.type.convert(text, option, None)
    return of_changes(changes_given(Args(**{one.option.removeprefix("--").replace("-", "_"): value})))


def given(kind: type, one: Declared, value: Any) -> tuple[LogConfig, Policies]:
    """Return what a new topic has with one value, and those that it needs beside it."""
    values = {one.name: value}
    if one.name == "segment_overflow_bytes" and value:
        values["segment_bytes"] = 512
    return of_changes(of_request(body(kind, values)))


@pytest.mark.parametrize(("kind", "one"), SETTINGS)
def test_a_setting_has_the_same_bounds_everywhere(kind: type, one: Declared) -> None:
    for value in sound(one):
        if one.name == "segment_overflow_bytes" and value == one.setting.most:
            continue  # its bound is that of the sum
        if one.name == "min_compaction_lag" or value is None:
            continue
        expected = given(kind, one, value)
        assert over_http(kind, {one.name: value}) == expected, value
        if one.option:
            assert on_the_command_line(one, typed(one, value).replace(" ", "")) == expected, value
    for value in wrong(one):
        with pytest.raises(ConfigError, match=one.name):
            given(kind, one, value)
        if value is None and kind is LogConfig:
            continue  # over HTTP: the default
        with pytest.raises(InvalidArgument, match=one.name):
            over_http(kind, {one.name: value})


@pytest.mark.parametrize(("kind", "one"), SETTINGS)
def test_a_setting_is_described_everywhere(kind: type, one: Declared) -> None:
    assert one.about.endswith("."), "the docstring says nothing"
    model = schemas()[MODELS[kind]]["properties"]
    assert model[one.name]["description"] == one.about
    offered = {name for option in topic_options() for name in option.opts}
    assert one.option in offered or one.setting.kind is Kind.TEXTS
    assert f"| `{one.name}` |" in page.PAGE.read_text()


@pytest.mark.parametrize(("kind", "one"), SETTINGS)
def test_what_may_be_altered_is_the_same_everywhere(kind: type, one: Declared) -> None:
    value = one.default if one.default is not None else sound(one)[0]
    is_offered = one.setting.altered and bool(one.option)
    assert (one.option in {name for option in alter_options() for name in option.opts}) is is_offered
    text = json.dumps(body(kind, {one.name: value})).encode()
    if one.setting.altered:
        assert _model_of(AlterTopic, text).changes[PARTS[kind] or one.name] is not None
        return
    with pytest.raises(InvalidArgument, match=f"there is no field '{one.name}' here"):
        _model_of(AlterTopic, text)
    with pytest.raises(ConfigError, match=f"{one.name} cannot be altered"):
        LogConfig().altered({one.name: value})


FIELD = "    batch_bytes: Annotated"
DECLARATION = '    colour: Annotated[Literal["red", "blue"], choice(**_OF_KAFKA)] = "red"\n'
SENTENCE = "        batch_bytes: "
SAID = "        colour: Colour of the records that Kafka's clients produce.\n"
USE = """
import json, seglog
from seglog.cli.config_options import alter_options
from seglog.server.api.configs import schemas
from tools.docs_site import options

with seglog.Broker("shop") as broker:
    topic = broker.create_topic("orders", partitions=2, policies=seglog.Policies(colour="blue"))
    stored = topic.policies
    broker.alter_topic("orders", policies=seglog.Policies(colour="red"))
    altered = topic.policies
field = schemas()["PoliciesModel"]["properties"]["colour"]
print(json.dumps({
    "stored": [stored.colour, stored.to_json()["colour"]],
    "altered": [altered.colour, "colour" in altered.to_json()],
    "http": {name: field[name] for name in ("enum", "description", "x-scope")},
    "docs": [line for line in options.page().splitlines() if line.startswith("| `colour` |")],
}))
"""


def test_a_new_setting_is_declared_in_one_place_and_found_on_every_surface(tmp_path: Path) -> None:
    source = Path(seglog.__file__).parent
    shutil.copytree(source, tmp_path / "seglog", ignore=shutil.ignore_patterns("__pycache__"))
    config = tmp_path / "seglog/policies.py"
    text = config.read_text()
    assert text.count(FIELD) == text.count(SENTENCE) == 1
    config.write_text(text.replace(FIELD, DECLARATION + FIELD).replace(SENTENCE, SAID + SENTENCE))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(source.parents[1])])}

    def ran(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            check=False,
            text=True,
            timeout=HANG_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    found = json.loads(ran("-c", USE))
    about = "Colour of the records that Kafka's clients produce."
    assert found == {
        "stored": ["blue", "blue"],
        "altered": ["red", False],
        "http": {"enum": ["red", "blue"], "description": about, "x-scope": "kafka"},
        "docs": [f"| `colour` | `'red'` | `--kafka-colour` | {about} |"],
    }
    assert "--kafka-colour" in ran("-m", "seglog", "topics", "alter", "--help")
    ran("-m", "seglog", "topics", "alter", "shop", "orders", "--kafka-colour", "blue")
    assert "colour blue" in ran("-m", "seglog", "topics", "shop")
