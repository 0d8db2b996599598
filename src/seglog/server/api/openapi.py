"""The OpenAPI 3.1 description of the server, generated from its operations. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from seglog.server.api import configs
from seglog.server.api.operations import ANYTHING, Answer, Operation
from seglog.server.problems import MEDIA_TYPE

REFERENCE = "#/components/schemas/{model}"
PROBLEM = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "error": {"type": "string", "description": "A class of seglog's error tree."},
        "retriable": {"type": "boolean"},
    },
    "required": ["type", "title", "status", "detail", "error", "retriable"],
}
OPEN_REFUSALS: tuple[int, ...] = (400, 403, 404, 405, 429, 503)
REFUSALS = (400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 422, 429, 500, 503)


def describe(operations: Sequence[Operation], *, tokens: bool, partitions: int) -> dict[str, Any]:
    """Return the description of all operations. tokens: whether tokens are required; partitions: limit per topic."""
    models = sorted({one.body for one in operations if isinstance(one.body, type)}, key=lambda model: model.__name__)
    _, schemas = models_json_schema([(model, "validation") for model in models], ref_template=REFERENCE)
    schemas["$defs"]["CreateTopic"]["properties"]["partitions"]["maximum"] = partitions
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, tokens)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "seglog",
            "version": version("seglog"),
            "description": "Topics of durable logs: append, read, follow, consume in groups.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": _tags(operations),
        "paths": paths,
        "components": {
            "schemas": {**schemas["$defs"], **configs.schemas(), "Problem": PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _tags(operations: Sequence[Operation]) -> list[dict[str, str]]:
    """Return the families of requests: the modules of their handlers, described by the first line of each."""
    modules = dict.fromkeys(map(_module, operations))
    return [
        {"name": _last(module), "description": (sys.modules[module].__doc__ or "").partition("\n")[0]}
        for module in modules
    ]


def _module(operation: Operation) -> str:
    handler = operation.handler
    function: object = handler.func if isinstance(handler, partial) else handler
    return function.__module__


def _last(module: str) -> str:
    return module.rpartition(".")[2]


def _operation(operation: Operation, tokens: bool) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.about,
        "tags": [_last(_module(operation))],
        "parameters": [parameter.openapi() for parameter in operation.parameters],
        "responses": dict(_answers(operation)),
        "security": [{"token": []}] if tokens and operation.needs != "nothing" else [],
    }
    if operation.links:
        links = {name: {"operationId": name, "parameters": dict(given)} for name, given in operation.links.items()}
        next(iter(told["responses"].values()))["links"] = links
    if operation.body is not None:
        told["requestBody"] = _body(operation.body)
    return told


def _body(body: type[BaseModel] | Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    if isinstance(body, Mapping):
        content = {media: {"schema": dict(schema)} for media, schema in body.items()}
        return {"required": ANYTHING not in body, "content": content}  # an empty body is a value too
    schema = {"$ref": REFERENCE.format(model=body.__name__)}
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _answers(operation: Operation) -> Iterable[tuple[str, dict[str, Any]]]:
    for status, answer in operation.answers.items():
        yield str(status), _answer(answer)
    refusals = OPEN_REFUSALS if operation.needs == "nothing" else REFUSALS
    if any(parameter.name == "copies" for parameter in operation.parameters):
        refusals = (*refusals, HTTPStatus.GATEWAY_TIMEOUT)
    for status in map(int, refusals):
        if status not in operation.answers:
            content = {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(model="Problem")}}}
            yield str(status), {"description": HTTPStatus(status).phrase, "content": content}


def _answer(answer: Answer) -> dict[str, Any]:
    if not answer.media:
        return {"description": answer.about}
    return {
        "description": answer.about,
        "content": {media: {"schema": dict(schema)} for media, schema in answer.media.items()},
    }
