"""Housekeeping over many logs: retention and compaction on schedule, by one thread that tells what it does.

    with Cleaner({"orders": orders, "users": users}).start() as cleaner:
        cleaner.state()              # of every log: what it is doing, why, how far, when next
        cleaner.explain("users", 7)  # why is this record still here

What a log keeps is decided by the log (its retention, and seglog.keyed.schedule); here it is decided which log has its
turn, when to look again and how long to wait after a failure.
"""

from seglog.topic.cleaning.cleaner import Cleaner
from seglog.topic.cleaning.state import Event, LogState

__all__ = ["Cleaner", "Event", "LogState"]
