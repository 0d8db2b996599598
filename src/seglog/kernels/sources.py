"""What the compiled code depends on, as one hash: code that was compiled from other sources is never used."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
CONSTANTS = ("codec.py", "index.py")  # of seglog.format: `layout` takes its numbers from them


@cache
def source_hash() -> str:
    """Return the hash of every module of this package, and of the modules that its constants come from."""
    digest = hashlib.sha256()
    for path in [*sorted(HERE.glob("*.py")), *(HERE.parent / "format" / name for name in CONSTANTS)]:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:24]
