"""Shared by seglog's programs on a terminal: the `seglog` command and Spark's jobs.

    parser   an argument parser that raises seglog's errors
    units    sizes, durations, times and counts, read and written
    output   stdout and stderr: lines, JSON, closed pipes
    exits    exit codes, and errors as one line

Knows errors, not what a program does.
"""
