"""Why a record is still in a log, or is not: pure functions of the facts about record and log.

Each verdict names what keeps the record and what would remove it. Reads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Literal, NamedTuple

from seglog.clock import has_passed
from seglog.compaction.plan import NEVER, cleanable
from seglog.compaction.schedule import LEAST_GARBAGE, Standing, choose_passed, least_pin, standing
from seglog.errors import CorruptRecord
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.log.explain.key_search import Later
from seglog.log.retention import aged_from
from seglog.record import EPOCH

What = Literal["latest", "superseded", "tombstone", "unkeyed", "record", "gone", "not yet"]
Because = Literal[
    "active segment",
    "younger than the minimum lag",
    "not in the table yet",
    "damaged segment",
    "expected to yield too little",
    "dirty ratio not reached",
    "compaction is due",
    "no clock yet",
    "tombstone's time has not come",
    "pinned",
    "latest of its key",
    "no key",
    "not compacted by key",
    "compacted",
    "a gap",
    "expired",
    "never written",
]
WAITING = ("expected to yield too little", "dirty ratio not reached", "compaction is due")
NONE_LATER = Later()


class Verdict(NamedTuple):
    """A conclusion from the facts; the fields are those of an Explanation."""

    what: What
    because: Because
    text: str
    until: int | None = None


@dataclass(frozen=True)
class Situation:
    """One log at one moment.

    now: us; end: its next offset; pins: follower -> next offset that it will read; stored: the offset before which its
    tables have every record, None if retention does not wait for them.
    """

    manifest: Manifest
    now: int
    active_bytes: int
    end: int
    pins: Mapping[str, int]
    stored: int | None = None

    @cached_property
    def standing(self) -> Standing:
        """The state of compaction."""
        active = self.end - self.manifest.active.base_offset
        return standing(
            self.manifest,
            self.now,
            durable=self.stored,
            active_bytes=self.active_bytes,
            active_records=active,
            pins=self.pins,
        )

    @cached_property
    def sources(self) -> tuple[SegmentEntry, ...]:
        """The segments that a compaction may read."""
        return cleanable(self.manifest.segments[:-1], self.manifest.config, self.now, self.stored)

    def waits_for_table(self, number: int) -> bool:
        """Whether tables lack records of segment `number`, or of one before it, that retention waits for."""
        stored, ends = self.stored, (entry.next_offset or 0 for entry in self.manifest.segments[: number + 1])
        return stored is not None and any(end > stored for end in ends)

    @cached_property
    def passed(self) -> frozenset[int]:
        """File numbers of the segments that a generational compaction would skip."""
        return choose_passed(self.sources, self.manifest.config, self.now, least_pin(self.pins))

    @cached_property
    def rolls_at(self) -> int | None:
        """Time (us) at which the active segment rolls by age; None if it has no such age, or has passed it."""
        age, created = self.manifest.config.roll_age_us, self.manifest.active.created
        return None if age is None or has_passed(created, age, self.now) else created + age


@dataclass(frozen=True)
class Facts:
    """A record in the log. number: that of its segment; later: what supersedes it; damage: of its segment."""

    log: Situation
    number: int
    offset: int
    key: bytes | None
    tombstone: bool
    later: Later = NONE_LATER
    damage: CorruptRecord | None = None

    @property
    def entry(self) -> SegmentEntry:
        """The segment of the record."""
        return self.log.manifest.segments[self.number]


def verdict(facts: Facts) -> Verdict:
    """Return why a record is in the log."""
    retention = facts.log.manifest.config.retention
    if not retention.compact:
        text, until = _by_retention(facts)
        return Verdict("record", "not compacted by key", f"The log is not compacted by key. {text}", until)
    if facts.key is None and retention.needs_keys:
        return _going(facts, "unkeyed", "It has no key, so the next compaction removes it")
    if facts.key is None:
        text, until = _by_retention(facts)
        return Verdict("unkeyed", "no key", f'It has no key, and such records are kept (unkeyed="keep"). {text}', until)
    if facts.tombstone and facts.later.counted is None:
        found = _tombstone(facts)
        if facts.later.offset is None or found.because == "compaction is due":
            return found
    if facts.later.offset is None:
        return _latest(facts)
    return _going(facts, "superseded", f"Offset {facts.later.offset} supersedes it")


# --- what keeps a record that compaction should remove ---------------------------------------------------------------


def _going(facts: Facts, what: What, why: str) -> Verdict:
    held = _out_of_reach(facts, what, why, facts.number, "it")
    if held is None and facts.damage is not None:
        text = f"{why}, but compaction skips its segment: {_unread(facts.damage)}"
        held = Verdict(what, "damaged segment", text)
    if held is None and facts.later.uncounted is not None:
        held = _out_of_reach(facts, what, why, facts.later.number, "that one")
        if held is None and facts.later.damage is not None:
            text = f"{why}, but compaction skips that record's segment: {_unread(facts.later.damage)}"
            held = Verdict(what, "damaged segment", text)
    return held or _scheduled(facts, what, why)


def _out_of_reach(facts: Facts, what: What, why: str, number: int, who: str) -> Verdict | None:
    """Return what prevents a compaction from reading segment `number`; None if nothing does."""
    log = facts.log
    if number == len(log.manifest.segments) - 1:
        text = f"{why}, but {who} is in the active segment, which compaction does not read; {_rolling(log)}"
        return Verdict(what, "active segment", text, log.rolls_at)
    if number < len(log.sources):
        return None
    if log.waits_for_table(number):
        text = f"{why}, but {who} is in or after a segment that the log's tables lack; retention waits for them "
        return Verdict(what, "not in the table yet", f"{text}(retention.after), and {_stored(log)}.")
    lag = log.manifest.config.retention.min_compaction_lag_us
    sealed = [entry.sealed_at or 0 for entry in log.manifest.segments[len(log.sources) : number + 1]]
    until = max(sealed) + lag
    text = f"{why}, but {who} is in or after a segment that was sealed less than min_compaction_lag ago"
    text += f" ({_span(lag)}); compaction may remove it from {moment(until)} on."
    return Verdict(what, "younger than the minimum lag", text, until)


def _stored(log: Situation) -> str:
    return "`seglog table sync` has made none" if not log.stored else f"they have what is before offset {log.stored}"


def _rolling(log: Situation) -> str:
    if log.rolls_at is not None:
        return f"the segment rolls when it is full, or at the first append or expire from {moment(log.rolls_at)} on."
    if log.manifest.config.roll_age_us is not None:
        return "the segment has reached its maximum age and rolls at the next append or `seglog expire`."
    return "the segment rolls when it is full (or by age, with segment_age or max_compaction_lag)."


def _scheduled(facts: Facts, what: What, why: str) -> Verdict:
    """Return when a compaction will remove a record that nothing else keeps."""
    log = facts.log
    if log.standing.due is None:
        text = f"{why}. {_schedule(log)}; `seglog compact` removes it now."
        return Verdict(what, "dirty ratio not reached", text, _lag_passes(log))
    if facts.entry.file in log.passed:
        garbage = log.standing.segments[facts.number].expected_garbage or 0.0
        text = f"{why}. A generational compaction skips its segment: {garbage:.0%} of it is expected to be garbage, "
        text += f"about {LEAST_GARBAGE:.0%} is needed; `seglog compact` removes it now."
        return Verdict(what, "expected to yield too little", text)
    return Verdict(what, "compaction is due", f"{why}. {_schedule(log)}, which will remove it.")


def _schedule(log: Situation) -> str:
    state, at = log.standing, _lag_passes(log)
    if state.due is not None:
        return f"A compaction is due ({state.due})"
    least = log.manifest.config.retention.min_dirty_ratio
    text = f"No compaction is due: {state.ratio:.0%} of the log is dirty, one is due above {least:.0%}"
    return f"{text} (min_dirty_ratio)" + ("" if at is None else f" or at {moment(at)} (max_compaction_lag)")


def _lag_passes(log: Situation) -> int | None:
    """Return the time (us) at which a compaction is due by max_compaction_lag; None if never."""
    most = log.manifest.config.retention.max_compaction_lag_us
    dirty = [source.created for source in log.sources if source.cleaned_to is None]
    return None if most is None or not dirty else min(dirty) + most


# --- records that stay -----------------------------------------------------------------------------------------------


def _tombstone(facts: Facts) -> Verdict:
    """Return what keeps a tombstone that no record within reach of compaction supersedes."""
    log = facts.log
    kept = _span(log.manifest.config.retention.delete_retention_us)
    why = f"It deletes its key and is removed {kept} (delete_retention) after the first compaction that saw it"
    held = _out_of_reach(facts, "tombstone", why, facts.number, "it")
    if held is not None:
        return held
    horizon = next((horizon for end, horizon in facts.entry.horizons if facts.offset < end), NEVER)
    pins = sorted(name for name, offset in log.pins.items() if offset <= facts.offset)
    if log.now < horizon < NEVER:
        text = f"{why}: at {moment(horizon)}" + (f", if {_named(pins)} read it by then." if pins else ".")
        return Verdict("tombstone", "tombstone's time has not come", text, None if pins else horizon)
    if pins and horizon < NEVER:
        text = f"delete_retention has passed, but {_named(pins)} not read it yet; it is removed then, or after unpin."
        return Verdict("tombstone", "pinned", text)
    if facts.damage is not None:
        return Verdict(
            "tombstone", "damaged segment", f"{why}, but compaction skips its segment: {_unread(facts.damage)}"
        )
    if horizon == NEVER:
        return Verdict("tombstone", "no clock yet", f"{why}; none has seen it yet. {_schedule(log)}.")
    return Verdict("tombstone", "compaction is due", "delete_retention has passed: the next compaction removes it.")


def _named(pins: list[str]) -> str:
    """Return the followers that have to read a tombstone, as the subject of a sentence."""
    names = ", ".join(repr(name) for name in pins)
    return f"the follower {names} has" if len(pins) == 1 else f"the followers {names} have"


def _latest(facts: Facts) -> Verdict:
    text, until = _by_retention(facts)
    if facts.later.damage is not None:
        damage = _unread(facts.later.damage)
        text = f"No later record of its key can be read, but one may exist: {damage} {text}"
        return Verdict("latest", "damaged segment", text, until)
    text = f"It is the latest record of its key, and stays until a later record or tombstone of the key. {text}"
    return Verdict("latest", "latest of its key", text, until)


def _unread(damage: CorruptRecord) -> str:
    return f"{damage.path} is damaged at position {damage.position}; run `seglog repair` to set the damage aside."


# --- retention by age and size --------------------------------------------------------------------------------------


def _by_retention(facts: Facts) -> tuple[str, int | None]:
    """Return as text when retention deletes a record's segment, and the time (us) if it depends on time alone."""
    log, retention = facts.log, facts.log.manifest.config.retention
    told, until = [], None
    if retention.age_us is not None and facts.entry.sealed:
        ages = [aged_from(entry, retention) or 0 for entry in log.manifest.segments[: facts.number + 1]]
        until = max(ages) + retention.age_us
        told.append(f"at {moment(until)} by retention.age")
    elif retention.age_us is not None:
        begin = (
            "it was sealed"
            if retention.age_from == "sealed"
            else "its newest record, or its sealing if that is earlier"
        )
        told.append(f"{_span(retention.age_us)} (retention.age) after {begin}")
    if retention.most_bytes is not None:
        behind = log.active_bytes + sum(entry.disk_bytes for entry in log.manifest.segments[facts.number + 1 : -1])
        left = max(retention.most_bytes - (0 if facts.number == len(log.manifest.segments) - 1 else behind), 0)
        told.append(f"once {left:,} more bytes follow it, by retention.bytes")
    if not told:
        return "No retention by age or size deletes its segment.", None
    text = f"Its segment is deleted {', or '.join(told)}; `seglog expire` checks this at once."
    if log.waits_for_table(facts.number):
        return f"{text} But not before the log's tables have it (retention.after): {_stored(log)}.", None
    return text, until


# --- missing records ------------------------------------------------------------------------------------------------


def why_missing(log: Situation, offset: int, next_offset: int) -> Verdict:
    """Return why no record is at an offset. next_offset: that of the next record, or the end of the log."""
    manifest = log.manifest
    if offset >= log.end:
        text = f"The log ends before offset {log.end}: nothing was appended there"
        text += ", or a truncate removed it." if manifest.epoch else "."
        return Verdict("not yet", "never written", text)
    if offset < manifest.config.initial_offset:
        return Verdict("gone", "never written", f"The log began at offset {manifest.config.initial_offset}.")
    if offset < manifest.start:
        return Verdict("gone", "expired", f"Retention by age or size deleted it: the log begins at {manifest.start}.")
    there = "no record follows" if next_offset >= log.end else f"the next record is at offset {next_offset}"
    entry = next((entry for entry in reversed(manifest.segments) if entry.base_offset <= offset), None)
    if entry is None or entry.cleaned_to is None:
        return Verdict("gone", "a gap", f"A follower left a gap here, or a repair removed damage; {there}.")
    text = "Compaction removed it: a later record has its key, it had no key, or it was an expired tombstone"
    return Verdict("gone", "compacted", f"{text}; {there}.")


def moment(at: int) -> str:
    """Format a time (us) for people, to the second, UTC."""
    try:
        return (EPOCH + timedelta(microseconds=at)).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError:
        return f"{at} us"


def _span(duration: int) -> str:
    """Format a duration (us) for people."""
    try:
        return str(timedelta(microseconds=duration)).removesuffix(", 0:00:00")
    except OverflowError:
        return f"{duration / 1e6:.0f} seconds"
