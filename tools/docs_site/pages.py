"""Which files of the repository are pages of the site, and how their links change on the way there.

The pages stay readable where they are, with links between files. On the site some have another place (README.md is
index.md), and files that are no pages (a source, a directory) cannot be reached: the text of such a link stays.
"""

from __future__ import annotations

import re
import shutil
from os.path import relpath
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
MOVED = {  # path in the repository -> path in the site; all of docs/ keeps its paths
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "vulnerabilities.md",
    "examples/README.md": "examples.md",
}
LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)")
CODE = re.compile(r"(^ *```.*?^ *```[^\n]*$)", flags=re.DOTALL | re.MULTILINE)
ELSEWHERE = ("http://", "https://", "mailto:", "#")


class BrokenLink(Exception):
    """A page links to a file that does not exist."""


def site_paths(root: Path = ROOT) -> dict[str, str]:
    """Return every file of the site: path in the repository -> path in the site, both with slashes."""
    docs = root / "docs"
    found = {f"docs/{path.relative_to(docs).as_posix()}" for path in docs.rglob("*") if path.is_file()}
    return {name: name.removeprefix("docs/") for name in sorted(found)} | {
        name: place for name, place in MOVED.items() if (root / name).exists()
    }


def relinked(text: str, source: str, paths: dict[str, str], root: Path = ROOT) -> str:
    """Return a page's text with the links that it needs at its place in the site.

    Args:
        text: The page as Markdown.
        source: Its path in the repository.
        paths: All files of the site, as `site_paths` returns them.
        root: The repository.

    Raises:
        BrokenLink: If a link leads to a file that the repository does not have.
    """

    def changed(link: re.Match[str]) -> str:
        target, _, fragment = link["target"].partition("#")
        if link["target"].startswith(ELSEWHERE):
            return link[0]
        goal = relpath(PurePosixPath(source).parent / target, ".").replace("\\", "/")
        if goal in paths:
            there = relpath(paths[goal], PurePosixPath(paths[source]).parent).replace("\\", "/")
            return f"{link['image']}[{link['text']}]({there}{'#' + fragment if fragment else ''})"
        if not (root / goal).exists():
            raise BrokenLink(f"{source} links to {link['target']}, which does not exist")
        return link["text"]

    parts = CODE.split(text)  # every second part is a block of code
    return "".join(part if number % 2 else LINK.sub(changed, part) for number, part in enumerate(parts))


def collect(target: Path, root: Path = ROOT) -> int:
    """Write all pages and pictures of the site below a directory; return how many pages. Raises BrokenLink."""
    paths = site_paths(root)
    for source, place in paths.items():
        written = target / place
        written.parent.mkdir(parents=True, exist_ok=True)
        if place.endswith(".md"):
            written.write_text(relinked((root / source).read_text("utf-8"), source, paths, root), "utf-8")
        else:
            shutil.copyfile(root / source, written)
    return sum(place.endswith(".md") for place in paths.values())
