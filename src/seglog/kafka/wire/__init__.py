"""Bytes <-> values of Kafka's messages: primitive types, structures by version. Knows no message and does no I/O."""
