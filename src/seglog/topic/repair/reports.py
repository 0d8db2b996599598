"""Results of verifying or repairing a place: plain values, one per log and topic, in the order of the place."""

from __future__ import annotations

from dataclasses import dataclass

from seglog.errors import SeglogError
from seglog.log.repair.repair import RepairAction, RepairReport
from seglog.log.repair.reports import Problem, VerifyReport


@dataclass(frozen=True, kw_only=True)
class LogTold:
    """Result for one log. name: "<topic>/<partition>", "<partition>" in a standalone topic, "" for a standalone log.
    writing: whether another process has it open for writing, None if unknown. Has either a report or an error.
    """

    name: str
    path: str
    writing: bool | None = None
    found: VerifyReport | None = None
    repair: RepairReport | None = None
    error: SeglogError | None = None


@dataclass(frozen=True, kw_only=True)
class TopicTold:
    """Result for a topic's own files; its partitions are reported separately. name: "" for a standalone topic.

    problems, kinds: name (it hides the directory around it), description (topic.json), partition (a directory is
    missing), transaction (a file in txn/).
    unfinished: batches that were committed but are not in every partition yet; the next opening completes them.
    """

    name: str
    path: str
    problems: tuple[Problem, ...] = ()
    unfinished: tuple[str, ...] = ()
    repair: RepairReport | None = None
    error: SeglogError | None = None


@dataclass(frozen=True, kw_only=True)
class Told:
    """Result for a whole place. kind: log, topic or broker."""

    kind: str
    path: str
    topics: tuple[TopicTold, ...]
    logs: tuple[LogTold, ...]

    @property
    def parts(self) -> list[TopicTold | LogTold]:
        """All parts, the topics' own files first."""
        return [*self.topics, *self.logs]

    @property
    def errors(self) -> list[SeglogError]:
        """The errors that kept a part from being checked or repaired."""
        return [part.error for part in self.parts if part.error is not None]

    @property
    def problems(self) -> list[Problem]:
        """Every problem found by a verification, topics' own files first."""
        own = [problem for topic in self.topics for problem in topic.problems]
        return own + [problem for log in self.logs if log.found for problem in log.found.problems]

    @property
    def actions(self) -> list[RepairAction]:
        """Everything that a repair did, or would do."""
        repairs = [part.repair for part in self.parts if part.repair is not None]
        return [action for repair in repairs for action in repair.actions]

    @property
    def ok(self) -> bool:
        """Whether everything was checked and is intact."""
        return not self.errors and not self.problems
