"""Which process may write a log: the lock, its holder, and whether the directory is still the log's."""
