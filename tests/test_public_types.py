"""The types of public signatures can be imported from `seglog` or `seglog.types`."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import seglog
import seglog.client
import seglog.types

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(seglog.__file__).parent
INTERNAL = {
    "Uncopied": "a base class without calls",
    "Inheritable": "a base class without calls",
    "ReadableLog": "the part of Log that reads; annotate with Log",
    "Decoder": "what a View decodes records with, for the package itself",
    "Manifest": "the catalog behind View, for the package itself",
    "SegmentReader": "what a View reads by, for the package itself",
    "SegmentEntry": "a line of the manifest, for the package itself",
    "SegmentCache": "for the package itself",
    "Lookup": "for the package itself",
    "S": "a type variable: the state of a machine",
    "Description": "topic.json, for the package itself",
    "Role": "whether a log leads or is a copy, for the server and its clients",
    "OffsetRecord": "a record of the log of groups, for the layer of Kafka's protocol",
    "Note": "what the layer of Kafka's protocol stores with an offset",
}


class Name(NamedTuple):
    """A name as a module of seglog defines it."""

    module: str
    name: str


@cache
def tree_of(module: str) -> ast.Module | None:
    path = SOURCE.parent / Path(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.exists():
            return ast.parse(file.read_text())
    return None


def defined(module: str, name: str) -> Name | None:
    """Return where a name that a module uses is defined, None if that is not in seglog."""
    tree = tree_of(module)
    if tree is None:
        return None
    if any(name == found for found in _definitions(tree)):
        return Name(module, name)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("seglog"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return defined(node.module, alias.name)
    return None


def _definitions(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id


def annotated(call: Any) -> set[Name]:
    """Return the names of seglog in the signature of a function, property or class."""
    function = inspect.unwrap(call.fget if isinstance(call, property) else call)
    try:
        annotations = inspect.get_annotations(function)
    except TypeError:
        return set()
    module = sys.modules[function.__module__].__name__
    words = {word for one in annotations.values() for word in re.findall(r"[A-Za-z_]+", str(one))}
    return {found for word in words if word[0].isupper() and (found := defined(module, word)) is not None}


def public_calls(kind: type) -> Iterator[tuple[str, Any]]:
    for base in kind.__mro__:
        if base.__module__.startswith("seglog"):
            for name, member in vars(base).items():
                if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                    yield name, member


def public() -> dict[str, Any]:
    """Return what is public, by name: of `seglog` and of `seglog.types`."""
    names = {name: getattr(seglog, name) for name in (*seglog.__all__, "Client", "AsyncClient")}
    return names | {name: getattr(seglog.types, name) for name in seglog.types.__all__}


def reachable() -> set[Name]:
    """Return where every public name is defined."""
    listed = {name: f"{home}" for name, home in seglog.types._HOME.items()}
    homes = {Name(f"seglog.{home.rpartition('.')[0]}", home.rpartition(".")[2]) for home in listed.values()}
    classes = {Name(kind.__module__, kind.__name__) for kind in public().values() if inspect.isclass(kind)}
    aliases = {found for home in homes if (found := defined(*home)) is not None}
    return classes | aliases


@pytest.mark.parametrize("name", [name for name, kind in public().items() if inspect.isclass(kind)])
def test_each_type_in_the_signatures_of_a_public_class_can_be_imported(name: str) -> None:
    there = reachable()
    missing = {
        f"{found.name} ({call})"
        for call, member in public_calls(public()[name])
        for found in annotated(member)
        if found not in there and found.name not in INTERNAL
    }
    assert not missing


@pytest.mark.parametrize("name", [name for name, call in public().items() if inspect.isfunction(call)])
def test_each_type_in_the_signature_of_a_public_function_can_be_imported(name: str) -> None:
    assert {found.name for found in annotated(public()[name]) if found not in reachable()} <= INTERNAL.keys()


def test_types_load_when_they_are_used() -> None:
    code = "import sys, seglog.types; print('pyarrow' in sys.modules, 'httpx' in sys.modules, dir(seglog.types)[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False Ack\n"


def test_a_type_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"seglog\.types"):
        _ = seglog.types.Misspelled  # type: ignore[attr-defined] # that is the point
