"""The log: ordered segments, the manifest that names them, reading and writing across them."""
