"""One segment: a store and its lookup; reading, appending to the active one, recovering its tail.

Knows one segment at a time; `seglog.log` composes segments to a log.
"""
