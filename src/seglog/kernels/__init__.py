"""The compiled hot loops: arrays in, arrays out. No logs, no Arrow; `import seglog` does not load this.

    loading     numba and what it compiles, loaded where no signal interrupts it
    memory      unaligned loads and stores at an address, and the `kernel` decorator
    lanes       XXH64's four lanes as one vector
    checksum    XXH64
    murmur2     Kafka's partitioner
    columns     Arrow column layouts <-> (address, length) per row
    headers     the headers of a record <-> columns
    encode      columns -> records, dense entries, marks
    decode      records -> validated columns
    point       one record of a file -> objects of Python: the only kernel that reads a file itself
    scan        records -> what recovery and verify need to know
    fingerprint SipHash-2-4-128 of a key
    keys        records -> fingerprints, offsets, kinds
    keymap      fingerprint -> number of the latest record, bounded
    survivors   records -> those that live on, in another store

Kernels call each other across modules, and numba's cache looks only at the file of the outermost one: after an
edit `make` removes what is stale; without it remove `*.nbi`. (An installation replaces all files.)
"""

from functools import partial
from importlib import import_module

from seglog.kernels.loading import beyond_interrupts

beyond_interrupts(partial(import_module, "numba"))  # before any module in here imports it
