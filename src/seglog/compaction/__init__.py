"""Compaction by key: sealed segments in, sealed segments out. Knows no log: nothing here installs a manifest.

    plan       what to compact, from a manifest's entries and the time (pure); groups, runs of tombstones (pure)
    keymap     the bounded map from key to latest offset
    reader     a store in windows of whole records
    died       which records died: maps ranges of keys, looks up every record
    output     writes the resulting segments
    pace       progress, abort and rate of a pass
    rewrite    one pass, from a plan to the replacement of its sources
    compress   one segment with a compressed store, or a plain one (not by key)

A pass reads the files that the log serves and writes beside them, so it runs in any process that sees the files: the
log's own, or an executor. One manifest adds its result to the log (`seglog.log.compaction`).
"""
