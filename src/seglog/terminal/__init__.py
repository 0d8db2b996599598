"""What every program of ours has in common on a terminal: the `seglog` command, and Spark's jobs.

    parser   arguments that are refused by an error of our own
    units    sizes, durations, times and counts, read and written
    output   stdout and stderr: lines, JSON, closed pipes
    exits    exit codes, and the one line an error becomes

Knows errors, and nothing of what a program does.
"""
