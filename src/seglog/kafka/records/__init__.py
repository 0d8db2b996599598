"""Kafka's record batches <-> Arrow. Knows no topic and no request."""
