"""State machines: `seglog.replay` applies the records of a log to one, with snapshots. See docs/replay.md."""
