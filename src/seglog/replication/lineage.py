"""Decide from where a copy can continue, by the epochs of both logs. Pure.

The leader gives every cut of its log a new epoch, so the offsets of a log form runs of one epoch each (format/cuts.py).
If an offset has the same epoch in two logs, they hold the same records before it, unless they compacted or expired
differently. So the last common point is the greatest offset that has the same epoch in both, as in Kafka
(OffsetForLeaderEpoch) and Raft.

That needs epochs that are never given twice: see `format.cuts.first_epoch`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seglog.errors import CopyDiverged, CopyExpired
from seglog.format.cuts import Cuts
from seglog.format.manifest import Manifest, Role

if TYPE_CHECKING:
    from seglog.log.view import View


@dataclass(frozen=True, slots=True)
class Lineage:
    """The history of a log. start, end: its lowest and next offset; rebuilt: its manifest was rebuilt from stores."""

    log_id: int
    term: int
    epoch: int
    cuts: Cuts
    start: int
    end: int
    rebuilt: bool = False

    @classmethod
    def of(cls, view: View) -> Lineage:
        """Return the history of a log as a view shows it."""
        return cls.from_manifest(view.manifest, view.next_offset)

    @classmethod
    def from_manifest(cls, manifest: Manifest, end: int) -> Lineage:
        """Return the history in a manifest. end: the next offset."""
        return cls(
            manifest.log_id, manifest.role.term, manifest.epoch, manifest.cuts, manifest.start, end, manifest.rebuilt
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "log": f"{self.log_id:016x}",
            "term": self.term,
            "epoch": self.epoch,
            **self.cuts.to_json(),
            "start": self.start,
            "end": self.end,
            "rebuilt": self.rebuilt,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Lineage:
        """Read what `to_json` returned; KeyError, TypeError or ValueError if it is invalid."""
        epoch = int(values["epoch"])
        return cls(
            int(values["log"], 16),
            int(values["term"]),
            epoch,
            Cuts.from_json(values, epoch),
            int(values["start"]),
            int(values["end"]),
            bool(values["rebuilt"]),
        )


def common_offset(one: Cuts, other: Cuts, limit: int) -> int | None:
    """Return the greatest offset up to `limit` that has the same epoch in both; None if there is none."""
    offset: int | None = limit
    while offset is not None and one.epoch_at(offset) != other.epoch_at(offset):
        before = [cut for cuts in (one, other) for _, cut in cuts.entries if cut < offset]
        offset = max(before, default=None)
    return offset


def continue_at(copy: Lineage, source: Lineage, *, is_copy: bool, names: tuple[str, str]) -> int:
    """Return the offset at which the copy continues: its records from there on were cut off the source.

    is_copy: a mirror wrote it; else it was a leader, or a backup of one. names: of the copy and the source, for errors.

    Raises:
        CopyDiverged: If the copy has another history, or records that the source never had or does not know of.
        CopyExpired: If the source no longer holds the records that the copy needs next.
    """
    target, path = names
    objection = _objection(copy, source, target, path)
    if objection is not None:
        raise CopyDiverged(f"{objection}. {_RESTART.format(target)}")
    common = common_offset(copy.cuts, source.cuts, min(copy.end, source.end))
    if common is None:
        raise CopyDiverged(
            f"{target} and {path} have no offset in common that is known to be the same; {_RESTART.format(target)}"
        )
    if common < copy.end and (not is_copy or copy.epoch == source.epoch):
        raise CopyDiverged(
            f"{target} is ahead of {path}: it holds records from offset {common} up to {copy.end} that {path} does not "
            f"have. If they count, do not continue; `seglog diff {target} {path}` shows them. {_RESTART.format(target)}"
        )
    if common < source.start:
        raise CopyExpired(
            f"{path} has deleted the records before offset {source.start}, and {target} ends at {common}: records in "
            f"between are lost to it; {_RESTART.format(target)}"
        )
    return common


def shared_offset(copy: Lineage, source: Lineage) -> int | None:
    """Return the last common point if both have it and all after it, else None: nothing of the copy can be kept."""
    if _objection(copy, source, "", "") is not None:
        return None
    common = common_offset(copy.cuts, source.cuts, min(copy.end, source.end))
    if common is None or common < max(source.start, copy.start):
        return None
    return common


_RESTART = "restart=True (--restart) deletes what {} holds and does not share with its source, and copies again"


def put_back(offset: int, target: str, path: str) -> CopyDiverged:
    """Return the error for a copy whose source has the same epochs, but another record at an offset."""
    return CopyDiverged(
        f"{target} and {path} hold different records at offset {offset}, perhaps also before it, as if {path} was put "
        f"back to an earlier state and then went on. `seglog diff {target} {path}` shows what {path} lacks. "
        f"{_RESTART.format(target)}"
    )


def _objection(copy: Lineage, source: Lineage, target: str, path: str) -> str | None:
    """Return why the source is another log, or an earlier or unsure state of it; None if it is not."""
    if copy.log_id != source.log_id:
        return f"{target} is a copy of another log than {path} (ids {copy.log_id:016x}, {source.log_id:016x})"
    if source.term < copy.term:
        return (
            f"{path} was replaced as leader: {target} knows term {copy.term}, {path} has term {source.term}; follow "
            "the promoted log"
        )
    if copy.rebuilt:
        return f"the manifest of {target} was rebuilt after damage"
    if source.epoch < copy.epoch:
        return f"{path} is in an earlier state than {target}, which is ahead, as if it was restored from a backup"
    return None


def history_of(source: Lineage, role: Role) -> dict[str, Any]:
    """Return the fields of a copy's manifest that follow from the source's history. role: the copy's."""
    return {"epoch": source.epoch, "cuts": source.cuts, "role": role}
