"""Pure functions between bytes and values: what stands in the files of a log. No I/O happens here."""
