"""Verify and repair all logs at a place, for an operator: a log, a topic, or a broker's directory of topics.

Besides the logs, a topic's own files can be damaged: `topic.json`, a partition's directory, `txn/`. A log that cannot
be opened does not stop the check of the others.
"""

from seglog.topic.repair.repair import refuse_writer, repair_place
from seglog.topic.repair.reports import LogTold, Told, TopicTold
from seglog.topic.repair.verify import verify_place

__all__ = ["LogTold", "Told", "TopicTold", "refuse_writer", "repair_place", "verify_place"]
