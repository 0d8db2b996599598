"""Results of verifying or repairing a place: plain values, one per log and topic, in the order of the place."""

from __future__ import annotations

from dataclasses import dataclass

from seglog.errors import SeglogError
from seglog.log.repair.repair import RepairAction, RepairReport
from seglog.log.repair.reports import Problem, VerifyReport
from seglog.topic.layout.root import OFFSETS, PRODUCERS

HELD = {
    OFFSETS: "the latest members or committed offsets of some consumer groups; an earlier commit counts, or none",
    PRODUCERS: (
        "the latest state of some transactional ids; their producers are rejected until they begin again "
        "(init_transactions)"
    ),
}


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

    @property
    def holds(self) -> str | None:
        """What is lost with records of a broker's own log, None for any other."""
        return HELD.get(self.name)


@dataclass(frozen=True, kw_only=True)
class TopicTold:
    """Result for a topic's own files; its partitions are reported separately. name: "" for a standalone topic.

    Also for a broker's files of transactions; its name is that of their directory.

    problems, kinds: name (it hides the directory around it), description (topic.json), partition (a directory is
    missing), transaction (a file in txn/ or .transactions/).
    unfinished: batches and transactions that were committed but are not in every partition yet; the next opening
    completes them.
    """

    name: str
    path: str
    problems: tuple[Problem, ...] = ()
    unfinished: tuple[str, ...] = ()
    repair: RepairReport | None = None
    error: SeglogError | None = None


@dataclass(frozen=True, kw_only=True)
class Told:
    """Result for a whole place. kind: log, topic or broker. transactions: the broker's files of transactions."""

    kind: str
    path: str
    topics: tuple[TopicTold, ...]
    logs: tuple[LogTold, ...]
    transactions: TopicTold | None = None

    @property
    def own(self) -> list[TopicTold]:
        """The parts that are no logs: the topics' own files, and the files of transactions."""
        return [*self.topics, *(() if self.transactions is None else (self.transactions,))]

    @property
    def parts(self) -> list[TopicTold | LogTold]:
        """All parts, those that are no logs first."""
        return [*self.own, *self.logs]

    @property
    def errors(self) -> list[SeglogError]:
        """The errors that kept a part from being checked or repaired."""
        return [part.error for part in self.parts if part.error is not None]

    @property
    def problems(self) -> list[Problem]:
        """Every problem found by a verification, those of logs last."""
        own = [problem for part in self.own for problem in part.problems]
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
