"""Why a batch of records is not accepted."""

from __future__ import annotations

from seglog.errors import InvalidArgument


class BadBatch(InvalidArgument):
    """A batch whose content is not valid; nothing of it was stored."""


class DamagedBatch(BadBatch):
    """A batch whose bytes do not have its checksum, or that is incomplete."""


class OldFormat(BadBatch):
    """Records in a format before version 2, which clients since Kafka 0.11 do not use."""


class BadRecords(BadBatch):
    """A batch of which some records are to blame. rows: their numbers, not more than MOST; why: of each of them."""

    MOST = 1000

    def __init__(self, rows: list[int], why: str, text: str) -> None:
        super().__init__(text)
        self.rows, self.why = rows[: self.MOST], why


class NoKeys(BadRecords):
    """A batch for a topic compacted by key, with records without a key."""

    def __init__(self, rows: list[int]) -> None:
        text = f"{len(rows)} records have no key (the first is record {rows[0]}), and the topic is compacted by key"
        super().__init__(rows, "it has no key", text)


class BadTimes(BadRecords):
    """A batch with timestamps that are too far from the server's time for its topic."""

    def __init__(self, rows: list[int], first: int, lowest: int, highest: int) -> None:
        """first: the timestamp of the first of them; lowest, highest: that the topic takes now; all in microseconds."""
        near, limit = (highest, "after") if first > highest else (lowest, "before")
        text = (
            f"{len(rows)} records have timestamps that the topic does not take: the first, record {rows[0]}, has "
            f"{first // 1000} ms, and {near // 1000} ms is the limit now (message.timestamp.{limit}.max.ms)"
        )
        super().__init__(rows, "its timestamp is too far from the server's time", text)


class TooLarge(BadBatch):
    """A batch with more bytes than are accepted. limit: what determines that."""

    def __init__(self, most: int, limit: str = "--batch-bytes of the server") -> None:
        super().__init__(f"its records take more than {most} bytes, the most that is accepted ({limit})")
