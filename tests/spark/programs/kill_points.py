"""kill -9 of a driver with everything it started, at named places of a batch's way into a topic; then a restart.

    python kill_points.py DIRECTORY [PLACE ...]        the places are those of `faults`; default: all

Each place is reached in a batch of its own of one and the same query. Behind each kill the topic must hold what it
should at that place; behind the last restart the output must be exactly what the input makes of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness import SMALL, check_sound, count, driver, end_cleanly, left_over, say, stored, wait_until

from seglog.topic import Topic

if TYPE_CHECKING:
    from harness import Session

WHAT_IS_THERE = {  # place -> partitions that have their share, transactions that wait
    "staged": (0, 0),
    "linked": (0, 1),
    "halfway": (1, 1),
    "published": (3, 0),
}
KEYS = 16
BATCH = 400


class Story:
    """Topics, what was fed to them, and which batch comes next."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.output = root / "output"
        self.control = root / "control.json"
        self.fed = 0
        self.batch = 0
        Topic.create(root / "input", partitions=1, config=SMALL).close()
        Topic.create(self.output, partitions=3, config=SMALL).close()

    def feed(self) -> None:
        """Append the records of one more micro-batch; they are in one by being there whole."""
        with Topic.open(self.root / "input") as topic:
            for number in range(self.fed, self.fed + BATCH):
                topic.append(b"value %d" % number, key=b"key %d" % (number % KEYS))
        self.fed += BATCH

    def run(self, *, kill_at: str | None) -> None:
        """Run Spark until it was killed at a place of the next batch, or until all that was fed is there."""
        wanted = {"driver": kill_at, "batch": self.batch} if kill_at else {}
        self.control.write_text(json.dumps(wanted))
        with driver("pipeline.py", self.root, "copy", control=self.control) as spark:
            if kill_at:
                spark.wait_until_gone()
            else:
                wait_until(lambda: self.done(spark), "the output of everything fed")
        self.check_places()

    def done(self, spark: Session) -> bool:
        """Tell whether all is there, and nothing is left of what came before; a Spark that ended is an error."""
        assert not spark.ended(), "Spark ended by itself"
        return count(self.output) == self.fed and left_over(self.output) == []

    def check_places(self) -> None:
        """AssertionError unless all that is stored is the beginning of what each key should have."""
        for key, values in self.found().items():
            assert values == self.expected(key)[: len(values)], f"{key!r} has {values}"

    def found(self) -> dict[bytes, list[bytes]]:
        """Return key -> its values in the output, in their order."""
        found: dict[bytes, list[bytes]] = {}
        for record in (record for share in stored(self.output) for record in share):
            found.setdefault(record.key or b"", []).append(record.value or b"")
        return found

    def expected(self, key: bytes) -> list[bytes]:
        """Return all that was fed for a key."""
        return [b"value %d" % number for number in range(int(key.split()[1]), self.fed, KEYS)]

    def partitions_with(self, batch: int) -> int:
        """Return how many partitions have their share of a batch."""
        query = json.loads((self.root / "checkpoint" / "metadata").read_text())["id"]
        with Topic.open(self.output, mode="r") as topic:
            last = [topic.partition(number).published(query) for number in range(topic.partitions)]
        return sum(number is not None and number >= batch for number in last)


def kill_at(story: Story, place: str) -> None:
    """Let the next batch be killed at a place, and look at what is left."""
    story.feed()
    story.run(kill_at=place)
    left, joined = left_over(story.output), story.partitions_with(story.batch)
    waiting = sum(name.startswith("txn/") for name in left)
    say(killed_at=place, batch=story.batch, partitions_with_their_share=joined, transactions=waiting)
    assert (joined, waiting) == WHAT_IS_THERE[place]
    assert any("staging" in name for name in left)
    assert not any("quarantine" in name for name in left)
    story.batch += 1


def main(root: Path, places: list[str]) -> None:
    """Run the whole story; AssertionError where something was lost, repeated or left behind."""
    story = Story(root)
    for place in places:
        kill_at(story, place)
    story.feed()
    story.run(kill_at=None)
    check_sound(story.output)
    found = story.found()
    assert found == {b"key %d" % key: story.expected(b"key %d" % key) for key in range(KEYS)}
    events = (story.control.parent / "control.json.log").read_text().splitlines()
    assert events == [f"{place} {batch}" for batch, place in enumerate(places)], events
    say(kills=len(places), records=story.fed, lost=0, repeated=0, left_over=0)


if __name__ == "__main__":
    end_cleanly()
    main(Path(sys.argv[1]), sys.argv[2:] or list(WHAT_IS_THERE))
