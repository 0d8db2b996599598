"""The performance of seglog as ratios: each figure is measured against the plainest program that does the same work.

`python -m benchmarks [names] [--json FILE] [--quick]`. Absolute figures vary with the machine; the aims are for ratios.
Nothing here is a test: a missed aim is printed, never raised.
"""
