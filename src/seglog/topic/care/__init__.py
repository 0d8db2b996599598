"""Looking after all logs of a place at once, for an operator: a log, a topic, or a broker's directory of topics.

What can be damaged besides the logs themselves is a topic's own: `topic.json`, a partition's directory, `txn/`. One
log that cannot be opened does not keep the others from being looked at.
"""

from seglog.topic.care.repairing import refuse_writer, repair_place
from seglog.topic.care.told import LogTold, Told, TopicTold
from seglog.topic.care.verifying import verify_place

__all__ = ["LogTold", "Told", "TopicTold", "refuse_writer", "repair_place", "verify_place"]
