"""The requests that the server understands, one module per family; `OPERATIONS` is all of them.

They are matched in this order, so the most frequent ones come first.
"""

from seglog.server.routes import (
    appending,
    copies,
    copying,
    decoding,
    groups,
    kafka,
    laminarmq,
    ranges,
    reading,
    system,
    tail,
    tokens,
    topics,
)

OPERATIONS = (
    *appending.OPERATIONS,
    *ranges.OPERATIONS,
    *reading.OPERATIONS,
    *groups.OPERATIONS,
    *decoding.OPERATIONS,
    *laminarmq.OPERATIONS,
    *tail.OPERATIONS,
    *topics.OPERATIONS,
    *copying.OPERATIONS,
    *copies.OPERATIONS,
    *kafka.OPERATIONS,
    *system.OPERATIONS,
    *tokens.OPERATIONS,
)
