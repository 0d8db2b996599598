"""A file system that is really full: in a mount namespace of its own, this program mounts a tmpfs and fills it.

Every operation runs out of space at each of its pages: once with no page free, once with one, and so on until it
succeeds. What fails must be an error of ours, ENOSPC, and nothing of it may be there; reads go on, and with the ballast
gone writes do. Arguments: the directory to mount at, the size of the tmpfs in KiB. Prints its counts.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import seglog
from tests.crash.programs.ledger import Ledger
from tests.crash.programs.log_story import Teller
from tests.crash.programs.tokens import LONG, length_of
from tests.crash.programs.zygote import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = 4096
KEYS, SEGMENT_BYTES = 7, 8192
BEFORE = ("small_batch", "append", "stream", "small_batch", "append")
OPERATIONS = (
    "create",
    "appends",
    "page_batch",
    "large_batch",
    "streams",
    "truncate",
    "compact",
    "publish",
    "alter",
    "pin",
    "expire",
    "reopen",
    "recover",
)
MOST_PAGES = 40
SEEDS = 3
"""Logs that are begun with other records, so that pages end elsewhere."""


class Disk:
    """The tmpfs, its ballast, and one log on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ballast = root / "ballast"
        self.log = root / "log"

    def clear(self) -> None:
        """Have nothing on it."""
        self.relieve()
        gc.collect()  # what an error's traceback still holds open takes space
        shutil.rmtree(self.log, ignore_errors=True)

    def relieve(self) -> None:
        """Give the space back."""
        self.ballast.unlink(missing_ok=True)

    def fill(self, pages_left: int) -> None:
        """Leave so many pages free."""
        free = os.statvfs(self.root).f_bfree
        with self.ballast.open("wb") as file:
            file.write(bytes(max(free - pages_left, 0) * PAGE))


class Filler(Teller):
    """A writer with operations of many pages."""

    refusal: BaseException | None = None

    def attempt(self, call: Callable[[], object]) -> None:
        """Do one operation, and keep the answer of the storage."""
        self.refusal = None
        try:
            call()
        except seglog.SeglogError as error:
            self.refusal = error
            self.say(refused=repr(error), poisoned=isinstance(error, seglog.LogPoisoned))

    def create(self) -> None:
        """Open what is not there yet."""
        self.open(self.config)

    def appends(self) -> None:
        """Append one by one over several pages, with a roll among them."""
        for _ in range(50):
            self.append()

    def page_batch(self) -> None:
        """A batch as large as a segment takes: one write over several pages."""
        rows, size = 0, 0
        while (size := size + length_of(self.token + rows, self.keys)) < SEGMENT_BYTES - 100:
            rows += 1
        self.batch_of(rows, "batch")

    def streams(self) -> None:
        """Stream long values over several pages."""
        for _ in range(12):
            self.token += -self.token % LONG
            self.stream()

    def tear(self) -> None:
        """Die with half a record after the last one."""
        self.log.close()
        stores = Path(self.path).glob("*.store")
        with max(stores, key=lambda path: int(path.stem.split("-")[1])).open("ab") as file:
            file.write(os.urandom(3000))

    def recover(self) -> None:
        """Come back after that."""
        self.open()


def run_out(disk: Disk, operation: str, pages: int, seed: int) -> tuple[Filler, Ledger]:
    """Let an operation meet a disk with so many pages free; return who did it and what is to be there."""
    disk.clear()
    request: dict[str, Any] = {"path": str(disk.log), "seed": seed, "keys": KEYS, "segment_bytes": SEGMENT_BYTES}
    ledger = Ledger(keys=KEYS, segment_bytes=SEGMENT_BYTES, keeps_tombstones=True, strict=False)
    filler = Filler(lambda **line: ledger.hear(json.loads(json.dumps(line))), request | {"token": 0, "batch": 0})
    if operation != "create":
        filler.open(filler.config)
        for what in BEFORE:
            getattr(filler, what)()
    if operation == "recover":
        filler.tear()
    disk.fill(pages)
    filler.attempt(getattr(filler, operation))
    return filler, ledger


def check(disk: Disk, operation: str, pages: int, seed: int, counts: Counter[str]) -> bool:
    """Do that, and check what is there, then and with the space back; return whether the operation succeeded."""
    filler, ledger = run_out(disk, operation, pages, seed)
    refusal, poisoned = filler.refusal, isinstance(filler.refusal, seglog.LogPoisoned)
    if refusal is not None:
        assert isinstance(refusal, seglog.StorageError) or (poisoned and operation == "large_batch"), repr(refusal)
        assert getattr(refusal, "errno", None) == errno.ENOSPC, repr(refusal)
    if filler.is_open and not poisoned:
        ledger.settle(filler.log)
    disk.relieve()
    if poisoned:
        filler.log.close()
    if not filler.is_open:
        with seglog.open(disk.log, filler.config if operation == "create" else None) as log:
            ledger.settle(log)
        filler.open()
    if refusal is not None and operation not in ("create", "recover"):
        getattr(filler, operation)()
    filler.append_synced()
    filler.reopen()
    ledger.settle(filler.log)
    filler.log.close()
    counts.update(runs=1, refused=refusal is not None, poisoned=poisoned, acknowledged=ledger.counts["acknowledged"])
    return refusal is None


def main() -> None:
    """Let every operation run out of space at each of its pages."""
    die_with_parent()
    root, size = Path(sys.argv[1]), int(sys.argv[2])
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(root)], check=True)
    disk, counts = Disk(root), Counter({"runs": 0, "refused": 0, "poisoned": 0, "acknowledged": 0})
    for seed, operation in product(range(SEEDS), OPERATIONS):
        for pages in range(MOST_PAGES):
            try:
                if check(disk, operation, pages, seed, counts):
                    break
            except BaseException as error:
                error.add_note(f"{operation} with {pages} pages free on a tmpfs of {size} KiB, seed {seed}")
                raise
        else:
            raise AssertionError(f"{operation} never succeeded")
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
