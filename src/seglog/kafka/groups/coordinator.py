"""All groups that have members which use Kafka's protocol. Event loop only."""

from __future__ import annotations

from seglog.kafka.groups.group import Group
from seglog.kafka.groups.room import Room
from seglog.topic.groups import Groups

KIND = "a Kafka client"


class Coordinator:
    """The groups by name. A group with members of Kafka's protocol rejects those of seglog's, and the reverse.

    An empty group is forgotten: what remains of it are its committed offsets.
    """

    def __init__(self, groups: Groups, most_bytes: int) -> None:
        """Take the broker's groups, which have members of seglog's protocol. most_bytes: that all members may hold."""
        self._groups = groups
        self.room = Room(most_bytes)
        self._known: dict[str, Group] = {}

    def find(self, name: str) -> Group | None:
        """Return a group, None if it has no members here."""
        return self._known.get(name)

    def names(self) -> list[str]:
        """Return the groups with members."""
        return [*self._known]

    def group(self, name: str) -> Group:
        """Return a group, new if it has no members. Raises GroupConflict if it has members of seglog's protocol."""
        found = self._known.get(name)
        if found is None:
            self._groups.hold(name, KIND)
            found = self._known[name] = Group(name, self._forget, self.room)
        return found

    def _forget(self, group: Group) -> None:
        if self._known.get(group.name) is group:
            del self._known[group.name]
            self._groups.release(group.name)

    def close(self) -> None:
        """End all waiting requests."""
        for group in [*self._known.values()]:
            group.close()
