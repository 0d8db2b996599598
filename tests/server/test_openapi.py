"""The server does what its description says: Schemathesis asks all that it allows, and what it forbids."""

from __future__ import annotations

import json
from time import monotonic
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema

from seglog.server.rights.access import new_token

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONG = 1000
LIMITS = {"wait_seconds": 0.05, "partitions": 4}
LINES = st.lists(st.fixed_dictionaries({"value": st.text(), "key": st.text()}), max_size=3)


def _stream(rows: list[dict[str, Any]]) -> bytes:
    out = pa.BufferOutputStream()
    table = pa.Table.from_pylist(rows, pa.schema([("value", pa.string()), ("key", pa.string())]))
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue().to_pybytes()


def _lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


schemathesis.openapi.media_type("application/vnd.apache.arrow.stream", LINES.map(_stream))
schemathesis.openapi.media_type("application/x-ndjson", LINES.map(_lines))


def config_of(examples: int, headers: dict[str, str]) -> SchemathesisConfig:
    return SchemathesisConfig.from_dict(
        {
            "headers": headers,
            "request-timeout": 20,
            "continue-on-failure": True,
            # What runs with every change tells of that change alone; the long one looks for what is new.
            "generation": {"max-examples": examples, "deterministic": examples < LONG},
            "operations": [{"include-operation-id": "tail", "request-timeout": 0.3}],  # it has no end
            # Its guesses take a topic's id for its name; the description names the links itself.
            "phases": {"stateful": {"inference": {"algorithms": []}}},
        }
    )


def filter_failure(_context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Leave out what a description cannot say."""
    # No copy follows this server.
    if response.status_code == 504 and response.json()["error"] == "NotMirrored":
        return "Undocumented" in failure.title
    refused = "Schema-valid request rejected" in failure.title and response.json()
    # That a key was used for another payload is a 422 of its own (draft-ietf-httpapi-idempotency-key-header).
    if refused and refused["error"] == "OnceConflict":
        return False
    # That a parameter forbids the body.
    if refused and refused["detail"].startswith("a tombstone has no value"):
        return False
    # That a parameter, force_timestamp, decides whether a number is a time.
    if refused and "looks like" in refused["detail"]:
        return False
    # Schemathesis itself sends 0 for a header whose pattern begins with a brace, and calls that valid.
    return not (refused and case.headers.get("Last-Event-ID") == "0")


def faults(url: str, examples: int, headers: dict[str, str]) -> tuple[list[str], int]:
    """Return what Schemathesis found, in its own words, and how many requests it made."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", config=config_of(examples, headers))
    schema.hook(filter_failure)
    schema = schema.exclude(operation_id="fence")  # the server would reject all that follows, as it should
    found: list[str] = []
    requests = 0
    for event in from_schema(schema).execute():
        found += _faults_of(event)
        if isinstance(event, events.ScenarioFinished):
            requests += len(event.recorder.interactions)
    return found, requests


def _faults_of(event: events.EngineEvent) -> Iterator[str]:
    if isinstance(event, events.FatalError):
        raise event.exception
    if isinstance(event, events.NonFatalError):
        yield f"{event.label}: {event.info.format()}"
    if isinstance(event, events.ScenarioFinished):
        for case, checks in event.recorder.checks.items():
            for check in checks:
                if check.failure_info is not None:
                    sent = event.recorder.interactions[case]
                    answer = sent.response
                    yield (
                        f"{check.failure_info.failure}\n{check.failure_info.code_sample}\n"
                        f"{answer.status_code} {answer.content[:500]!r}"
                    )


def check(server: Any, examples: int, headers: dict[str, str], least: int = 1000) -> None:
    begun = monotonic()
    found, requests = faults(server.url, examples, headers)
    print(f"{requests} requests in {monotonic() - begun:.0f} s")
    assert not found, "\n\n".join(found)
    assert requests > least
    assert server.process.poll() is None


def with_token(directory: Path) -> tuple[Path, dict[str, str]]:
    token, entry = new_token("all", {"*": ["admin"]})
    file = directory / "tokens.json"
    file.write_text(json.dumps({"tokens": [entry]}))
    return file, {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(("examples", "least"), [(2, 500), pytest.param(4, 1000, marks=pytest.mark.deep)])
def test_the_server_answers_as_its_description_says(serve_with, examples, least):
    check(serve_with(limits=LIMITS), examples, {}, least)


@pytest.mark.proof
def test_a_server_with_tokens_answers_so_too_and_lets_nobody_in_without(serve_with, tmp_path):
    tokens, headers = with_token(tmp_path)
    check(serve_with(limits=LIMITS, tokens=str(tokens)), 2, headers, 500)


@pytest.mark.deep
def test_the_server_answers_as_its_description_says_for_long(serve_with, tmp_path):
    tokens, headers = with_token(tmp_path)
    check(serve_with(limits=LIMITS, tokens=str(tokens)), LONG, headers)
