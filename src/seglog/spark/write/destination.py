"""The logs behind a path that rows are written to, and how a batch is added. Used by executors and the driver.

Executors stage (`stage`), the driver publishes (`publish`); both use the same directory name for the batch. Knows no
Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from seglog.clock import system_clock
from seglog.errors import InvalidArgument, LogLocked, LogNotFound, NotALog, TopicExists
from seglog.format import filename
from seglog.log.log import Log
from seglog.log.opening import existing, open_log
from seglog.log.staging import Stage, StagedSegment, age_out, remove_stages
from seglog.storage import LocalStorage, Storage
from seglog.topic.layout import description
from seglog.topic.layout.names import checked_name
from seglog.topic.topic import Topic
from seglog.topic.transaction import Transaction

LOCK_PATIENCE = 60.0  # seconds; another query's publication takes a fraction of one
_RETRY_EVERY = 0.02

Share = dict[int, list["StagedSegment"]]
Held = TypeVar("Held", "Log", Topic)


@dataclass(frozen=True, slots=True)
class Destination:
    """One topic, or one standalone log (partition 0 of a topic with its directory's name)."""

    name: str
    root: Path
    partitions: int
    alone: bool

    def storage(self, partition: int) -> Storage:
        """Return the storage of one partition's log."""
        return LocalStorage(self.root if self.alone else self.root / str(partition))

    def stage(self, partition: int, batch: str) -> Stage:
        """Start a stage in one partition."""
        return Stage(self.storage(partition), batch)

    @contextmanager
    def held(self) -> Iterator[Publication]:
        """Hold the lock, so that a batch can be added. Waits for other publishers. Raises LogLocked after that."""
        with ExitStack() as resources:
            if self.alone:
                target: Log | Topic = resources.enter_context(patiently(lambda: open_log(self.root)))
            else:
                target = resources.enter_context(patiently(lambda: Topic.open(self.root)))
            yield Publication(self, target)

    def forget(self, *, query: str, batch: int) -> None:
        """Remove every stage of a failed batch, including those of dead tasks. A batch that was committed nevertheless
        is left alone, and so is one in a log that another process holds: its stages expire.
        """
        with suppress(LogLocked), self.held() as publication:  # no commit between check and removal
            if not publication.holds(query, batch):
                for partition in range(self.partitions):
                    remove_stages(self.storage(partition), batch_name(query, batch))

    def is_committed(self, query: str, batch: int) -> bool:
        """Whether a batch is stored, or will be: its transaction is written."""
        waiting = Transaction(query=query, batch=batch, staged={}).file
        if not self.alone and LocalStorage(self.root).identity(waiting) is not None:
            return True
        return any(_last_batch(self.storage(number), query) >= batch for number in range(self.partitions))

    def clean(self, query: str, batch: int) -> None:
        """Remove what this batch and earlier ones of its query staged, including results that were not used."""
        for number in range(self.partitions):
            storage = self.storage(number)
            for name in storage.names(filename.STAGING):
                of_query, _, at = name.rpartition("-")
                if of_query == query and at.isdecimal() and int(at) <= batch:
                    remove_stages(storage, name)
        if self.alone and not description.is_topic(self.root.parent):
            age_out(self.storage(0), system_clock())


@dataclass(frozen=True, slots=True)
class Publication:
    """A destination with its lock held."""

    destination: Destination
    target: Log | Topic

    def holds(self, query: str, batch: int) -> bool:
        """Whether a batch is stored: opening the topic has completed any written transaction."""
        last = self.target.published(query)
        return last is not None and last >= batch

    def check(self, staged: Share, *, query: str, batch: int) -> None:
        """Raise, without any change, the errors that `publish` would raise."""
        if self.holds(query, batch):
            return
        if isinstance(self.target, Topic):
            self.target.check_staged(staged)
        else:
            self.target.check_staged(staged.get(0, []))

    def publish(self, staged: Share, *, query: str, batch: int) -> bool:
        """Add a batch and remove its stages; return False if it was stored already."""
        if isinstance(self.target, Topic):
            added = self.target.publish(staged, query=query, batch=batch) is not None
        else:
            added = self.target.publish(staged.get(0, []), query=query, batch=batch) is not None
        self.destination.clean(query, batch)
        return added


def batch_name(query: str, batch: int) -> str:
    """Return the name of the directory of a batch's stages."""
    return f"{query}-{batch}"


def find(path: str, topic: str | None) -> Destination:
    """Return the destination of rows with this topic (None: no topic named).

    path: a log, a topic or a directory of topics. Raises LogNotFound or NotALog if there is no destination,
    InvalidArgument if another topic is at `path`.
    """
    root = Path(path).absolute()
    if description.is_topic(root):
        return _named(_topic_at(root), topic)
    below = _topics_below(root)
    for found in below:
        if found.name == topic:
            return found
    if below and topic is None:
        raise InvalidArgument(f"a row has no topic, and {root} is a directory of topics; set option or column topic")
    try:
        return _named(_log_at(root), topic)
    except (LogNotFound, NotALog) as error:
        raise _nothing_at(root, topic) from error


def check_place(path: str, topic: str | None, *, by_column: bool) -> None:
    """Raise, on the driver and before any task runs, the error that `find` would raise for every row.

    by_column: the rows name their topics, so only the existence of a destination can be checked now.
    """
    if topic is None and by_column:
        if not everywhere(path):
            raise _nothing_at(Path(path).absolute(), None)
    else:
        find(path, topic)


def create_topic(path: str, topic: str | None, partitions: int | None) -> None:
    """Create a topic, at `path` or (topic named) in the directory `path`, unless it exists; default: 1 partition.

    Raises InvalidArgument if it exists with another number of partitions, or for an invalid name. NotALog.
    """
    try:
        found = find(path, topic)
    except LogNotFound:
        root = Path(path).absolute() if topic is None else Path(path).absolute() / checked_name(topic, "topic")
        checked_name(root.name, "topic")
        with suppress(TopicExists):  # another job has created it meanwhile
            Topic.create(root, partitions=partitions or 1).close()
        found = find(path, topic)
    if partitions is not None and found.partitions != partitions:
        raise InvalidArgument(
            f"option partitions is {partitions}, but {found.root} already has {found.partitions}; omit the option"
        )


def everywhere(path: str) -> list[Destination]:
    """Return all destinations that rows may have been staged for; none if there is neither a log nor a topic."""
    root = Path(path).absolute()
    if description.is_topic(root):
        return [_topic_at(root)]
    try:
        return _topics_below(root) or [_log_at(root)]
    except (LogNotFound, NotALog):
        return []


def _nothing_at(root: Path, topic: str | None) -> LogNotFound:
    what = "neither a log nor a topic" if topic is None else f"no topic {topic!r} and no log"
    advice = "option createTopic=true (--partitions N of the job that ingests) creates a topic"
    return LogNotFound(f"option path: there is {what} at {root}; {advice}")


def _named(found: Destination, topic: str | None) -> Destination:
    if topic is not None and topic != found.name:
        raise InvalidArgument(
            f"a row has topic {topic!r}, but {found.root} is {found.name!r}; drop the column or set option topic"
        )
    return found


def _topic_at(root: Path) -> Destination:
    found = description.read(root)
    return Destination(found.name, root, found.partitions, alone=False)


def _topics_below(root: Path) -> list[Destination]:
    return [_topic_at(root / directory) for directory in description.below(root)]


def _log_at(root: Path) -> Destination:
    existing(LocalStorage(root))
    return Destination(root.name, root, 1, alone=True)


def _last_batch(storage: Storage, query: str) -> int:
    with open_log(storage, mode="r") as log:
        last = log.published(query)
    return -1 if last is None else last


@contextmanager
def patiently(opened: Callable[[], Held]) -> Iterator[Held]:
    """Open for writing as soon as no other process holds it. Raises LogLocked after LOCK_PATIENCE seconds."""
    deadline = time.monotonic() + LOCK_PATIENCE
    while True:
        try:
            held = opened()
        except LogLocked as error:
            if time.monotonic() > deadline:
                error.add_note("publishing a batch needs the log's lock: close the other writer, or write through it")
                raise
            time.sleep(_RETRY_EVERY)  # flock has no timeout
        else:
            break
    with held:
        yield held


def merged(messages: Sequence[Mapping[str, Share]]) -> dict[str, Share]:
    """Return topic -> partition -> staged segments of all tasks, in the order of the tasks."""
    total: dict[str, Share] = {}
    for message in messages:
        for topic, share in message.items():
            for partition, staged in share.items():
                total.setdefault(topic, {}).setdefault(partition, []).extend(staged)
    return total
