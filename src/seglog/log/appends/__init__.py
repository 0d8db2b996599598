"""Appends of several callers, of a stream of chunks, and of Arrow batches."""
