"""Topics: one name, several logs. A key determines the partition; records of a key keep their order."""

from seglog.topic.partitioner import murmur2, partition_of
from seglog.topic.topic import Topic

__all__ = ["Topic", "murmur2", "partition_of"]
