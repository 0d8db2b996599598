"""One segment: a store, its lookup, reading them, appending to the active one, recovering its tail.

Knows one segment at a time; which segments make a log is the business of `seglog.log`.
"""
