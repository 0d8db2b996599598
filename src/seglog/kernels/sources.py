"""One hash of everything that compiled code depends on: code compiled from other sources is never used."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
CONSTANTS = ("codec.py", "index.py")  # of seglog.format, from which `layout` takes its constants


@cache
def source_hash() -> str:
    """Return the hash of every module of this package, and of the modules with its constants."""
    digest = hashlib.sha256()
    for path in [*sorted(HERE.glob("*.py")), *(HERE.parent / "format" / name for name in CONSTANTS)]:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:24]
