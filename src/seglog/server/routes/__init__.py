"""The requests that the server understands, one module per family; `OPERATIONS` is all of them.

They are matched in this order, so the most frequent ones come first.
"""

from seglog.server.routes import (
    appending,
    copies,
    copying,
    groups,
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
    *laminarmq.OPERATIONS,
    *tail.OPERATIONS,
    *topics.OPERATIONS,
    *copying.OPERATIONS,
    *copies.OPERATIONS,
    *system.OPERATIONS,
    *tokens.OPERATIONS,
)
