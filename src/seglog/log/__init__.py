"""The log: segments in order, one manifest that names them, reading and writing across them."""
