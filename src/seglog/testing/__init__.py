"""For tests of whoever builds on seglog, and of seglog itself. Nothing here is loaded by the log.

`storage_contract` is the suite that every storage must pass (it needs pytest). `faulty` wraps a storage, and `system`
stands below LocalStorage: calls fail, or the process dies, where a plan says. `disk` and `disk_storage` are a storage
whose disk keeps a journal; `crash_states` tells every state in which a power cut may leave it, `power_loss` opens them,
`ledger` knows what may be found there. `damage` changes bits, lengths and places of what is stored.
"""
