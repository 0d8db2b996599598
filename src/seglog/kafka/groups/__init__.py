"""The members of Kafka's consumer groups, whose clients assign the partitions. Knows no committed offsets."""
