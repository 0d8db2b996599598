"""Pure functions between bytes and values: the content of a log's files. Performs no I/O."""
