"""For tests of whoever builds on seglog, and of seglog itself.

`faulty` wraps a storage and makes it fail, or die, at a chosen call. `storage_contract` is the suite that every storage
must pass; it needs pytest. Neither is loaded by the log.
"""
