"""The pages of the site: which files they are, where their links lead, and that nothing public is left out."""

from __future__ import annotations

import dataclasses
import re
import tomllib

import pytest
import yaml

from seglog.cli import catalog
from seglog.cli.frame import Verbs, load
from seglog.settings import arguments_of
from tools.docs_site import api, commands, options
from tools.docs_site.pages import ROOT, BrokenLink, relinked, site_paths

PATHS = {"README.md": "index.md", "docs/a.md": "a.md", "docs/sub/b.md": "sub/b.md", "docs/p.svg": "p.svg"}


@pytest.mark.parametrize(
    ("source", "link", "expected"),
    [
        ("README.md", "[a](docs/a.md#part)", "[a](a.md#part)"),
        ("README.md", "![p](docs/p.svg)", "![p](p.svg)"),
        ("docs/sub/b.md", "[home](../../README.md)", "[home](../index.md)"),
        ("docs/sub/b.md", "[a](../a.md), [b](b.md#x)", "[a](../a.md), [b](b.md#x)"),
        ("docs/a.md", "[code](../src/seglog/errors.py)", "code"),
        ("docs/a.md", "[out](https://example.org/x.md) [here](#part)", "[out](https://example.org/x.md) [here](#part)"),
        ("docs/a.md", "```\n[a](missing.md)\n```", "```\n[a](missing.md)\n```"),
    ],
)
def test_a_link_leads_to_the_same_page_in_the_site(source, link, expected):
    assert relinked(link, source, PATHS) == expected


def test_a_link_to_a_file_that_does_not_exist_is_an_error():
    with pytest.raises(BrokenLink, match=r"docs/a\.md links to missing\.md"):
        relinked("[b](missing.md)", "docs/a.md", PATHS)


def test_every_link_of_every_page_leads_somewhere():
    paths = site_paths()
    for source in paths:
        if source.endswith(".md"):
            relinked((ROOT / source).read_text("utf-8"), source, paths)


def listed(entries: list[dict[str, object]]) -> set[str]:
    found: set[str] = set()
    for entry in entries:
        for place in entry.values():
            found |= listed(place) if isinstance(place, list) else {str(place)}
    return found


def test_every_page_is_in_the_navigation():
    config = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
    pages = {place for place in site_paths().values() if place.endswith(".md")}
    pages = {place for place in pages if not re.match(r"adr/\d", place)}  # adr/README.md lists these
    pages |= {f"api/{page.file}" for page in api.pages()} | {"api/index.md"}
    assert listed(config["nav"]) == pages
    decisions = {path.name for path in (ROOT / "docs" / "adr").glob("[0-9]*.md")}
    assert set(re.findall(r"\((\d{4}-[\w-]+\.md)\)", (ROOT / "docs" / "adr" / "README.md").read_text())) >= decisions


def test_every_command_has_a_part_of_the_page_on_the_command_line():
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    for name in catalog.COMMANDS:
        assert f"\n### seglog {name}\n" in text
        command = load(name)
        for verb in command.commands if isinstance(command, Verbs) else ():
            assert f"\n#### seglog {name} {verb}\n" in text


def test_the_page_of_options_is_what_the_classes_declare():
    assert options.PAGE.read_text("utf-8") == options.page(), "run `python -m tools.docs_site.options`"


@pytest.mark.parametrize("family", options.families(), ids=lambda family: family.kind.__name__)
def test_every_option_is_described_and_its_flag_exists(family):
    fields = {field.name for field in dataclasses.fields(family.kind) if not field.name.startswith("_")}
    assert set(arguments_of(family.kind)) == fields
    name, _, verb = family.command.partition(" ")
    command = load(name) if name else None
    command = command.commands[verb] if isinstance(command, Verbs) else command
    flags = {flag for param in command.params for flag in param.opts} if command else set()
    assert set(family.flags.values()) <= flags


def rows_of(heading: str) -> dict[str, str]:
    """Return the rows of a table of docs/options.md: each option name -> the commands that have it, as text."""
    _, _, text = options.PAGE.read_text("utf-8").partition(f"\n## {heading}\n")
    found: dict[str, str] = {}
    for shown, of in re.findall(r"^\| `(-.*?)` \| (.*?) \| ", text.partition("\n## ")[0], flags=re.MULTILINE):
        for name in re.findall(r"(?<!\S)--?[\w-]+", shown):
            found[name] = f"{found.get(name, '')} {of}"
    return found


def test_the_page_of_options_lists_every_option_of_every_command():
    rows = rows_of("Options of the commands")
    assert {"--otel", "--lease", "--holder", "--wait", "--version"} <= rows.keys()
    named = set()
    for name, command in commands.commands().items():
        for flag in {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)}:
            if flag.startswith("-"):
                named.add(flag)
                assert f"`{name or 'seglog'}`" in rows[flag] or "all commands" in rows[flag], (name, flag)
    assert named == rows.keys()


def test_the_page_of_options_lists_every_option_of_every_program_of_spark():
    rows = rows_of("Options of Spark's programs")
    named = set()
    for name, parser in commands.parsers().items():
        for flag in set(parser._option_string_actions) - {"-h", "--help"}:
            named.add(flag)
            assert f"`{name}`" in rows[flag] or "all programs" in rows[flag], (name, flag)
    assert named == rows.keys()


def test_every_public_name_is_in_the_reference():
    names = {(page.module, name) for page in api.pages() for name in page.names}
    shown = {name for _, name in names}
    import seglog  # noqa: PLC0415 - the names themselves
    import seglog.types  # noqa: PLC0415 - as above

    modules = {"errors"}
    assert {name for name in dir(seglog) if not name.startswith("_")} - modules <= shown
    assert set(seglog.types.__all__) <= shown


def test_every_module_that_is_promised_to_be_stable_has_a_page_in_the_reference():
    shown = {page.module: set(page.names) for page in api.pages()}
    assert {"seglog", "seglog.server", "seglog.spark", "seglog.table", "seglog.testing"} <= api.promised()
    assert api.promised() <= shown.keys()
    assert all(shown.values())


def test_the_reference_has_every_program_of_spark_and_every_name_that_a_page_imports():
    shown = {f"{page.module}.{name}" for page in api.pages() for name in page.names}
    texts = "\n".join((ROOT / source).read_text("utf-8") for source in site_paths() if source.endswith(".md"))
    imports = re.findall(r"^ *from (seglog[\w.]*) import ([\w, ]+)", texts, flags=re.MULTILINE)
    imported = {f"{module}.{name.split()[0]}" for module, names in imports for name in names.split(",")}
    programs = {path.parent.name for path in (ROOT / "src" / "seglog" / "spark").glob("*/__main__.py")}
    assert len(imported) > 15
    assert imported - shown == set()
    assert {name for name in programs if f"seglog.spark.{name}.{name}" not in shown} == set()


def test_the_readme_is_short_and_shows_a_picture_that_knows_dark_mode():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 200
    pictures = re.findall(r"!\[[^\]]+\]\((docs/\w+\.svg)\)", text)
    assert pictures
    for picture in pictures:
        assert "prefers-color-scheme: dark" in (ROOT / picture).read_text("utf-8")


def test_the_checks_before_a_commit_run_the_tools_of_make_lint():

    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    wanted = {word.split("/")[-1] for word in re.findall(r"\$\(BIN\)/(\S+)", lint[1])}
    assert {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks} == wanted
    assert all(hook["language"] == "system" for hook in hooks)  # no download before a commit
