"""Why a batch of records is not accepted."""

from __future__ import annotations

from seglog.errors import InvalidArgument


class BadBatch(InvalidArgument):
    """A batch whose content is not valid; nothing of it was stored."""


class DamagedBatch(BadBatch):
    """A batch whose bytes do not have its checksum, or that is incomplete."""


class OldFormat(BadBatch):
    """Records in a format before version 2, which clients since Kafka 0.11 do not use."""


class NoKeys(BadBatch):
    """A batch for a topic compacted by key, with records without a key; rows: their numbers, not more than MOST."""

    MOST = 1000

    def __init__(self, rows: list[int]) -> None:
        super().__init__(
            f"{len(rows)} records have no key (the first is record {rows[0]}), and the topic is compacted by key"
        )
        self.rows = rows[: self.MOST]


class TooLarge(BadBatch):
    """A batch with more bytes than are accepted. limit: what determines that."""

    def __init__(self, most: int, limit: str = "--batch-bytes of the server") -> None:
        super().__init__(f"its records take more than {most} bytes, the most that is accepted ({limit})")
