"""The requests that a server understands, one module for each family; `OPERATIONS` is all of them.

They are tried in this order, so those that come most often stand first.
"""

from seglog.server.routes import appending, groups, laminarmq, ranges, reading, system, tail, topics

OPERATIONS = (
    *appending.OPERATIONS,
    *ranges.OPERATIONS,
    *reading.OPERATIONS,
    *groups.OPERATIONS,
    *laminarmq.OPERATIONS,
    *tail.OPERATIONS,
    *topics.OPERATIONS,
    *system.OPERATIONS,
)
