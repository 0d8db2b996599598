"""Copies of logs that follow their leader: `seglog.Mirror`. See docs/replication.md and adr/0031."""

from seglog.replication.mirror import Mirror

__all__ = ["Mirror"]
