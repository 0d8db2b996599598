"""The topics that a broker has open, by name: opened when first used, closed with the broker or their deletion."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext, suppress
from typing import TYPE_CHECKING

from seglog.clock import Clock
from seglog.config import Expose
from seglog.errors import SeglogError, TopicNotFound
from seglog.storage import Storage, Subdirectory
from seglog.topic.layout import description
from seglog.topic.opening import Mode
from seglog.topic.topic import Topic

if TYPE_CHECKING:
    from seglog.log.locks.write_lock import TreeLock


class OpenTopics:
    """A broker's topics. The broker holds its `_guard` in every call that changes them.

    Attributes:
        failed: The topics that could not be opened at the last try, with the error.
        coming: The topic being created, which may exist already but is not usable yet.
        going: The topic being deleted, whose directory may have moved away already.
    """

    def __init__(
        self, root: Storage, lock: TreeLock | None, mode: Mode, expose: Expose, clock: Clock, archive: str | None
    ) -> None:
        """lock: of a writing broker; archive: the URL of the directory's archive."""
        self._root = root
        self._lock = lock
        self._mode: Mode = mode
        self._expose: Expose = expose
        self._clock = clock
        self._archive = archive
        self._open: dict[str, Topic] = {}
        self.failed: dict[str, SeglogError] = {}
        self.coming: str | None = None
        self.going: str | None = None

    def at(self, name: str) -> Subdirectory:
        """Return the directory of a topic."""
        return Subdirectory(self._root, name, locked=self._lock)

    def archive_of(self, name: str) -> str | None:
        """Return the URL of a topic's archive."""
        return None if self._archive is None else f"{self._archive}/{name}"

    def get(self, name: str) -> Topic:
        """Return a topic, opened if it is not. Raises TopicNotFound, and what Topic.open raises."""
        known = self._open.get(name)
        if known is None or known.closed or not self._is_present(name, known):
            if name == self.coming:
                raise TopicNotFound(name)
            known = self._open_topic(name)
        return known

    def if_open(self, name: str) -> Topic | None:
        """Return a topic if it is open; takes no lock."""
        topic = self._open.get(name)
        return None if topic is None or topic.closed else topic

    def add(self, name: str, created: Topic) -> None:
        """Take a topic that was just created."""
        self._open[name] = created

    def items(self) -> list[tuple[str, Topic]]:
        """Return names and topics, among them topics that were closed."""
        return [*self._open.items()]

    def prepare_to_go(self, name: str) -> None:
        """Sync a topic about to be deleted and keep its files open, so that readers can finish.

        Once the directory has moved, the partitions stop permanently, and reads of them end at their durable offsets.
        """
        topic = self.if_open(name)
        if topic is not None:
            with suppress(SeglogError):
                topic.sync()
            topic._keep_files()
        self.going = name

    def forget(self, name: str) -> Topic | None:
        """Forget a topic whose directory has gone; return it, to be closed, if it was open."""
        topic = self._open.pop(name, None)
        self.failed.pop(name, None)
        return topic

    def close(self) -> None:
        """Close every topic; all are closed even if one fails."""
        with ExitStack() as closing:
            for name, topic in self._open.items():
                closing.callback(self._close, name, topic)
            self._open.clear()

    def _close(self, name: str, topic: Topic) -> None:
        """Close a topic. One that is gone, because its deletion was interrupted, has nothing left to sync."""
        gone = name == self.going and not description.is_topic(self.at(name))
        with suppress(SeglogError) if gone else nullcontext():
            topic.close()

    def _open_topic(self, name: str) -> Topic:
        if not description.is_topic(self.at(name)):
            raise TopicNotFound(name)
        stale = self._open.pop(name, None)
        if stale is not None:
            stale.close()
        try:
            self._open[name] = Topic.open(
                self.at(name),
                mode=self._mode,
                expose=self._expose,
                clock=self._clock,
                archive=self.archive_of(name),
            )
        except SeglogError as error:
            self.failed[name] = error
            raise
        self.failed.pop(name, None)
        return self._open[name]

    def _is_present(self, name: str, topic: Topic) -> bool:
        """Whether an open topic is still the one on disk; beside a writer it may have been replaced."""
        if self._mode == "a":
            return True
        if not description.is_topic(self.at(name)):
            return False
        known = description.read(self.at(name))
        return (known.id, known.partitions) == (topic.id, topic.partitions)
