"""What a verification or a repair of a place tells: plain values, a log or a topic each, in the order of the place."""

from __future__ import annotations

from dataclasses import dataclass

from seglog.errors import SeglogError
from seglog.log.findings import Problem, VerifyReport
from seglog.log.repair import RepairAction, RepairReport


@dataclass(frozen=True, kw_only=True)
class LogTold:
    """Of one log. name: "<topic>/<partition>", "<partition>" of a topic alone, "" of a log alone. writing: whether
    another process has it open for writing, None where that cannot be told. Either a report or an error.
    """

    name: str
    path: str
    writing: bool | None = None
    found: VerifyReport | None = None
    repair: RepairReport | None = None
    error: SeglogError | None = None


@dataclass(frozen=True, kw_only=True)
class TopicTold:
    """Of a topic's own files; what its partitions hold is told apart. name: "" of a topic alone.

    problems, kinds: name (it hides the directory around it), description (topic.json), partition (a directory is
    missing), transaction (a file in txn/).
    unfinished: batches that were committed and are not in every partition yet; the next opening sees to that.
    """

    name: str
    path: str
    problems: tuple[Problem, ...] = ()
    unfinished: tuple[str, ...] = ()
    repair: RepairReport | None = None
    error: SeglogError | None = None


@dataclass(frozen=True, kw_only=True)
class Told:
    """Of a whole place. kind: log, topic or broker."""

    kind: str
    path: str
    topics: tuple[TopicTold, ...]
    logs: tuple[LogTold, ...]

    @property
    def parts(self) -> list[TopicTold | LogTold]:
        """All of it, the topics' own files first."""
        return [*self.topics, *self.logs]

    @property
    def errors(self) -> list[SeglogError]:
        """What kept a part from being looked at or repaired."""
        return [part.error for part in self.parts if part.error is not None]

    @property
    def problems(self) -> list[Problem]:
        """Every problem that a verification found, topics' own first."""
        own = [problem for topic in self.topics for problem in topic.problems]
        return own + [problem for log in self.logs if log.found for problem in log.found.problems]

    @property
    def actions(self) -> list[RepairAction]:
        """Everything that a repair did, or would do."""
        repairs = [part.repair for part in self.parts if part.repair is not None]
        return [action for repair in repairs for action in repair.actions]

    @property
    def ok(self) -> bool:
        """Whether everything was looked at and is sound."""
        return not self.errors and not self.problems
