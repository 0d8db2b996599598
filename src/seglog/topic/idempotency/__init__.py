"""Idempotency keys: an append that is repeated with its key is stored once."""
