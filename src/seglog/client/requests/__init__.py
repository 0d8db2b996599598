"""Requests to a server as values: arguments in, a Call out. No I/O."""
