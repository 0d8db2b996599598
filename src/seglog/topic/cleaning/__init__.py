"""Housekeeping of many logs: retention, compaction and compression, by one thread that reports what it does.

    with Cleaner({"orders": orders, "users": users}).start() as cleaner:
        cleaner.state()              # of every log: what it is doing, why, progress, next time
        cleaner.explain("users", 7)  # why is this record still here

The log decides what it keeps and how (its config, and seglog.compaction.schedule); the cleaner decides which log is
next, when to look again and how long to wait after a failure.
"""

from seglog.topic.cleaning.cleaner import Cleaner
from seglog.topic.cleaning.state import Event, LogState

__all__ = ["Cleaner", "Event", "LogState"]
