"""The compiled hot loops: arrays in, arrays out. No logs, no Arrow; `import seglog` does not load them.

    native      the library of kernels compiled ahead of time for this processor
    memory      unaligned loads and stores at an address, and the `kernel` decorator
    parameters  the types of a kernel's parameters
    sources     the hash of all of these modules, which identifies compiled code
    machine     the same loads and stores for numba; jit: numba's compiler and its cache; boxing: what `point` returns
    loading     calls that no signal interrupts
    aot         compiles the library (used to build a wheel)
    lanes       XXH64's four lanes as one vector
    checksum    XXH64
    murmur2     Kafka's partitioner
    columns     Arrow column layouts <-> (address, length) per row
    headers     the headers of a record <-> columns
    encode      columns -> records, dense entries, marks
    decode      records -> validated columns
    point       one record of a file -> Python objects: the only kernel that reads a file itself
    scan        records -> what recovery and verify need
    fingerprint SipHash-2-4-128 of a key
    keys        records -> fingerprints, offsets, kinds
    keymap      fingerprint -> number of the latest record, bounded
    survivors   records -> those that live, for another store
    record_batches  the records of Kafka's batches <-> columns

With a library for this processor neither numba nor LLVM is loaded. Without one numba compiles each kernel at its first
call and caches the code (`jit`).
"""

from functools import partial
from importlib import import_module

from seglog.errors import MissingExtra
from seglog.extras import how_to_install
from seglog.kernels import native
from seglog.kernels.loading import beyond_interrupts

if native.find() is None:
    try:
        beyond_interrupts(partial(import_module, "numba"))  # before any module of this package imports it
    except ImportError as error:
        raise MissingExtra(
            "this installation of seglog has no compiled kernels for this processor, and numba, which compiles them, "
            f"cannot be imported: {how_to_install('jit')}"
        ) from error
