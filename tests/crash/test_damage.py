"""Every bit, every length, every block of a small log; records and files in the wrong places: never a wrong byte.

What must be true is in `damaged`; here stands what is done, how much of it fits into CI, and the long version.
"""

from __future__ import annotations

import resource
import signal
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest

from seglog.errors import CorruptLog
from seglog.format.manifest_changes import decode_file
from seglog.testing import damage as harm
from seglog.testing.damage import Damage, Files
from tests.crash.damaged import WORDS, Examination, Shape, Subject, Wrong, make
from tests.proofs import Tell

ROOM_BYTES = 1024**3
"""Address space that examining a log of a few KiB may take: no length in a damaged file may be believed."""
LONGEST_SECONDS = 20
REPAIRED = 7
"""One damage in so many is repaired in CI, all in the long version."""
WHOLLY = 4
"""One damage to a file alone in so many is examined in every way in CI, the others lightly."""

OPENED = {"MANIFEST": 11, "MANIFEST.prev": 31}
"""Every damage to the structure is judged where it is read; one in so many is examined with the log."""
ONE_FILE = ("store", "index", "offsets", "times", *OPENED)
COMPRESSED = Shape(
    compacted="a b a c- b . c", dense="d e: f g- h", durable="i", unsynced="j", cut=1, compression="zstd"
)
SHAPES = (
    Shape(),
    Shape(compacted="a b c a: b- c . d a", dense="e f- g: h", durable="i", unsynced="", cut=1),
    Shape(compacted="a a a b", dense="c d", durable="e: f- . g", unsynced="h i j", cut=0),
    COMPRESSED,
)
BIT_STEPS = [pytest.param(7, marks=pytest.mark.proof), pytest.param(1, marks=pytest.mark.deep)]
"""One bit in 7: a bit of every byte."""


@contextmanager
def bounds() -> Iterator[None]:
    """Limit memory and CPU time: raise where a damaged log takes more than ROOM_BYTES or LONGEST_SECONDS."""

    def too_long(*_: Any) -> None:
        raise Wrong(f"it takes more than {LONGEST_SECONDS} s")

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGVTALRM, too_long)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM_BYTES, hard))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def sweep(subject: Subject, damages: Iterable[Damage], *, wholly: int = 1, repaired: int = REPAIRED) -> Counter[str]:
    """Examine every damage; return how they ended. Wrong, with the names of the first ones, if anything is."""
    counts = Counter(dict.fromkeys(("damages", *WORDS, "repaired", "violations"), 0))
    wrong: list[str] = []
    with bounds():
        for damage in damages:
            signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_SECONDS)
            examination = Examination(subject, damage)
            try:
                counts[examination.run_lightly() if counts["damages"] % wholly else examination.run()] += 1
                if (counts["damages"] + 1) % repaired == 0:
                    counts[examination.repair()] += 1
            except Exception as error:  # noqa: BLE001 - whatever is raised here is the finding
                wrong.append(f"{damage.name}: {type(error).__name__}: {error}")
            counts["damages"] += 1
    assert counts["damages"], "there is nothing to damage"
    counts["violations"] = len(wrong)
    if wrong:
        raise Wrong("\n".join([f"{len(wrong)} of {counts['damages']}:", *wrong[:20]]))
    return counts


def of_one_file(file: str, data: bytes, *, seed: int = 0) -> Iterator[Damage]:
    """Yield all that can be done to one file alone, but flipped bits."""
    yield from harm.lengths(file, data, seed=seed)
    yield from harm.blocks(file, data, seed=seed)
    yield from harm.blocks(file, data, size=64, seed=seed)


def of_kind(files: Files, kind: str) -> list[tuple[str, bytes]]:
    return [(name, data) for name, data in files.items() if harm.kind_of(name) == kind]


def of_files(subject: Subject, other: Subject) -> Iterator[Damage]:
    """Yield what can be done with whole files: lost, exchanged, older ones and another log's in their place."""
    yield from harm.removed(subject.files)
    yield from harm.exchanged(subject.files)
    for number, older in enumerate(subject.older):
        yield from harm.replaced(subject.files, older, f"an older version, {number}")
    yield from harm.replaced(subject.files, other.files, "another log")


@pytest.fixture(scope="module")
def subject() -> Subject:
    return make()


def judged(subject: Subject, damage: Damage) -> None:
    """Require that a damaged manifest is refused, or known to be damaged, unless it ends where it ended before.

    A flipped bit may not even cost the last change.
    """
    ((name, data),) = damage.changes.items()
    whole = subject.files[name]
    before = decode_file(whole, name).manifest
    try:
        file = decode_file(data or b"", name)
    except CorruptLog:
        return
    assert file.manifest == before or file.manifest.version < before.version, damage.name
    assert not file.sound or whole.startswith(data or b"x"), damage.name
    assert file.manifest == before or len(data or b"") != len(whole) or " bit " not in damage.name, damage.name


def examined(subject: Subject, kind: str, damages: list[Damage]) -> Counter[str]:
    """Examine damages to files of one kind as far as CI has time, but every one."""
    if kind not in OPENED:
        return sweep(subject, damages, wholly=WHOLLY)
    for damage in damages:
        judged(subject, damage)
    counts = sweep(subject, damages[:: OPENED[kind]], wholly=WHOLLY)
    counts["damaged_manifests"] = len(damages)
    return counts


@pytest.mark.parametrize("step", BIT_STEPS)
@pytest.mark.parametrize("kind", ONE_FILE)
def test_any_flipped_bit(subject: Subject, kind: str, step: int, tell: Tell) -> None:
    damages = [damage for name, data in of_kind(subject.files, kind) for damage in harm.bits(name, data)]
    tell("damage", what=f"flipped bits, one in {step}", file=kind, **examined(subject, kind, damages[::step]))


@pytest.mark.proof
@pytest.mark.parametrize("kind", ONE_FILE)
def test_any_length_and_any_block(subject: Subject, kind: str, tell: Tell) -> None:
    damages = [damage for name, data in of_kind(subject.files, kind) for damage in of_one_file(name, data)]
    tell("damage", what="lengths and blocks", file=kind, **examined(subject, kind, damages))


@pytest.fixture(scope="module")
def changed() -> Subject:
    """A log to whose MANIFEST changes were appended."""
    made = make(Shape(compacted="a . b a c", dense="d a: e-", cut=1, rolled=("l", "m n", "o", "p:")))
    assert decode_file(made.files["MANIFEST"], "MANIFEST").changes > 1
    return made


def manifest_damaged(subject: Subject, step: int) -> Iterator[Damage]:
    """Yield what can be done to MANIFEST alone, one damage in `step`."""
    data = subject.files["MANIFEST"]
    return islice(chain(harm.bits("MANIFEST", data), of_one_file("MANIFEST", data)), 0, None, step)


@pytest.mark.proof
def test_any_damage_to_a_manifest_with_changes(changed: Subject, tell: Tell) -> None:
    count = 0
    for damage in manifest_damaged(changed, 7):  # every byte
        judged(changed, damage)
        count += 1
    counts = sweep(changed, manifest_damaged(changed, 39 * OPENED["MANIFEST"]), wholly=WHOLLY)
    tell("damage", what="changes", file="MANIFEST", **counts, damaged_manifests=count)


def test_some_damage_to_a_manifest_with_changes(changed: Subject) -> None:
    """The same in the fast suite."""
    for damage in manifest_damaged(changed, 211):
        judged(changed, damage)
    assert sweep(changed, manifest_damaged(changed, 1499), wholly=WHOLLY)["damages"] > 10


@pytest.mark.proof
def test_any_record_in_another_ones_place(subject: Subject, tell: Tell) -> None:
    other = make(seed=5)
    damages = [
        *harm.rearranged(subject.files, subject.spans),
        *harm.from_elsewhere(subject.files, subject.spans, other.files, other.spans),
    ]
    tell("damage", what="moved records", file="store", **sweep(subject, damages))


@pytest.mark.proof
def test_any_file_lost_exchanged_or_outdated(subject: Subject, tell: Tell) -> None:
    counts = sweep(subject, of_files(subject, make(seed=5)), repaired=10**9)
    tell("damage", what="whole files", file="all", **counts)


@pytest.fixture(scope="module")
def compressed() -> Subject:
    """A log with two compressed segments of small blocks; the second is cut inside a block."""
    made = make(COMPRESSED)
    for entry in harm.manifest_of(made.files).segments[:2]:
        assert entry.stored == len(made.files[entry.name()])
        assert len({span.start for span in made.spans if span.file == entry.name()}) > 2, "several blocks"
    return made


def of_blocks(subject: Subject, kind: str) -> list[tuple[str, bytes]]:
    """Return the stores or tables of the compressed segments."""
    sealed = harm.manifest_of(subject.files).segments[:-1]
    assert len(sealed) == 2
    return [(entry.name(kind), subject.files[entry.name(kind)]) for entry in sealed]


@pytest.mark.parametrize("step", BIT_STEPS)
@pytest.mark.parametrize("kind", ["store", "blocks"])
def test_any_flipped_bit_of_a_compressed_segment(compressed: Subject, kind: str, step: int, tell: Tell) -> None:
    flipped = chain.from_iterable(harm.bits(name, data) for name, data in of_blocks(compressed, kind))
    counts = sweep(compressed, islice(flipped, 0, None, step), wholly=WHOLLY)
    tell("damage", what=f"flipped bits, one in {step}", file=f"compressed {kind}", **counts)


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["store", "blocks"])
def test_any_length_and_any_block_of_a_compressed_segment(compressed: Subject, kind: str, tell: Tell) -> None:
    damages = [damage for name, data in of_blocks(compressed, kind) for damage in of_one_file(name, data)]
    tell("damage", what="lengths and blocks", file=f"compressed {kind}", **sweep(compressed, damages, wholly=WHOLLY))


@pytest.mark.proof
def test_any_block_of_a_compressed_segment_in_another_ones_place(compressed: Subject, tell: Tell) -> None:
    other = make(COMPRESSED, seed=5)
    damages = [
        *harm.rearranged(compressed.files, compressed.spans),
        *harm.from_elsewhere(compressed.files, compressed.spans, other.files, other.spans),
    ]
    tell("damage", what="moved records", file="compressed store", **sweep(compressed, damages))


@pytest.mark.proof
def test_any_file_of_a_compressed_log_lost_exchanged_or_outdated(compressed: Subject, tell: Tell) -> None:
    counts = sweep(compressed, of_files(compressed, make(COMPRESSED, seed=5)), repaired=10**9)
    tell("damage", what="whole files", file="all of a compressed log", **counts)


@pytest.mark.parametrize("kind", ["store", "blocks"])
def test_some_damage_to_a_compressed_segment(compressed: Subject, kind: str) -> None:
    """The same in the fast suite."""
    for name, data in of_blocks(compressed, kind):
        flipped = islice(harm.bits(name, data), 0, None, 97)
        sweep(compressed, chain(flipped, islice(of_one_file(name, data), 0, None, 41)))


@pytest.mark.parametrize("kind", ONE_FILE)
def test_a_bit_here_and_there(subject: Subject, kind: str) -> None:
    """The same as the proofs, in the fast suite: one bit in 97."""
    damages = chain.from_iterable(harm.bits(name, data) for name, data in of_kind(subject.files, kind))
    sweep(subject, islice(damages, 0, None, 997 if kind in OPENED else 97))


def test_a_repair_of_zeros_in_a_store_costs_no_record_beside_them() -> None:
    """A head of zeros is an unfinished write only after the extent in the index (found by a long proof, seed 1004)."""
    subject = make(SHAPES[2], seed=1004)
    damages = [
        damage
        for name, data in of_kind(subject.files, "store")
        for damage in of_one_file(name, data, seed=1004)
        if "zeros" in damage.name
    ]
    assert sweep(subject, damages, repaired=1)["repaired"] > 10


def one_round(seed: int, root: Path) -> dict[str, int]:
    """Damage one more log: one bit in 24, one length in 8, others each round, and all the rest; repair each of them.

    root is not used: all of it is in memory.
    """
    subject, other = make(SHAPES[seed % len(SHAPES)], seed=seed), make(seed=seed + 5)
    files = subject.files.items()
    flipped = chain.from_iterable(harm.bits(name, data) for name, data in files)
    damages = chain(
        islice(flipped, seed % 24, None, 24),
        islice(chain.from_iterable(of_one_file(name, data, seed=seed) for name, data in files), seed % 8, None, 8),
        harm.rearranged(subject.files, subject.spans),
        of_files(subject, other),
    )
    try:
        return dict(sweep(subject, damages, repaired=1))
    except Wrong as error:
        raise Wrong(f"seed {seed}: {error}") from error
