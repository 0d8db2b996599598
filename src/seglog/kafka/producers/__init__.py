"""Idempotent producers: which sequence number each may send next, remembered by the logs themselves."""
