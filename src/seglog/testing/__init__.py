"""Tools for testing seglog and programs that use it. The log itself loads nothing of this package.

`storage_contract` is the suite that every storage must pass (it needs pytest). `faulty` wraps a storage, `system`
replaces the system calls below LocalStorage: as planned, calls fail or the process dies. `disk` and `disk_storage` are
a storage whose disk keeps a journal; `crash_states` derives every state in which a power cut may leave it, `power_loss`
opens these states, and `ledger` knows what may be found in them. `damage` changes bits, lengths and places of stored
data. `kafka` is a broker for Kafka's clients in the process of a test, `kafka_fixtures` the same for pytest.
"""
