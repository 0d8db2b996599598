"""Compaction by key: sealed segments in, sealed segments out. Knows no log: nothing here installs a manifest.

    plan       what to compact, from a manifest's entries and the time (pure); groups, runs of tombstones (pure)
    keymap     the bounded map from key to latest offset
    reader     a store in windows, whole records at a time
    died       which records died: ranges of keys are mapped, every record is looked up
    output     writes the segments that come of it
    pace       progress, abort and rate of a pass
    rewrite    one pass, from a plan to what would take the sources' place

A pass reads what the log serves and writes beside it, so that it runs in any process that sees the files: in the
log's own, or on an executor. What comes of it joins the log by one manifest (`seglog.log.compaction`).
"""
