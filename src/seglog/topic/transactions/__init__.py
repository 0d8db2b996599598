"""Records for many topics, and committed offsets, that appear all or not at all.

    frames        bytes <-> frames of a journal, pure
    journal       the file of one transaction: what it stages, and its decision
    publishing    a decided transaction becomes records and commits, also after a crash in between
    transactions  all of a broker: begins, decides, completes what an earlier process left

`topic.publishing` adds whole segments to one topic; this package adds records to many.
"""
