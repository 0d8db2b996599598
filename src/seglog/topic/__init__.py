"""A topic: one name, several logs. Keys decide the partition; the order of a key's records is the log's
order.
"""

from seglog.topic.partitioner import murmur2, partition_of
from seglog.topic.topic import Topic

__all__ = ["Topic", "murmur2", "partition_of"]
