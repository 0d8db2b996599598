"""What seglog costs, told as ratios: each figure is measured against the plainest thing that does the same work.

`python -m benchmarks [names] [--json FILE] [--quick]`. Absolute figures drift with the machine; the ratios are what the
design aims at. Nothing here is a test: a missed aim is printed, never raised.
"""
