"""Arrow tables in, record batches out. Knows no log."""
