"""Copies of logs that follow their leader. See docs/replication.md and adr/0031."""

from seglog.replication.aio import AsyncMirror
from seglog.replication.diff import Difference, DiffReport, diff
from seglog.replication.log_mirror import Lag
from seglog.replication.mirror import Mirror
from seglog.replication.promote import fence, promote

__all__ = ["AsyncMirror", "DiffReport", "Difference", "Lag", "Mirror", "diff", "fence", "promote"]
