"""Calls that run in several threads while their results are used in order. Knows no bytes and no files."""
