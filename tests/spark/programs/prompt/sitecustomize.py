"""On the path of the tests' Spark, and so loaded first by every Python that it starts.

Spark starts a Python for each stream that it reads, and gives it ten seconds to connect and to tell the secret: a
constant of Spark's. Its worker imports pyspark, numpy and pyarrow before, which takes longer on a busy machine. Here
the worker connects before it imports anything, and PySpark gets the connection once it asks for one.
"""

from __future__ import annotations

import os
import sys
from typing import Any

PORT, SECRET = "PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SECRET"
HOME = "pyspark.util"  # the module whose function connects


def connected() -> Any:
    """Do what `pyspark.util.local_connect_and_auth` does, and return the same: a file, and its socket."""
    import socket  # noqa: PLC0415 - most processes that load this need none
    import struct  # noqa: PLC0415 - as above

    sock = socket.create_connection(("127.0.0.1", int(os.environ[PORT])))
    file = sock.makefile("rwb", 65536)
    secret = os.environ[SECRET].encode()
    file.write(struct.pack(">i", len(secret)) + secret)
    file.flush()
    (size,) = struct.unpack(">i", file.read(4))
    answer = file.read(size)
    if answer != b"ok":
        raise ConnectionError(f"Spark answers {answer!r}")
    return file, sock


class Finder:
    """Lets others find PySpark's module, and replaces the function in it once it is loaded."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name != HOME:
            return None
        from importlib.util import find_spec  # noqa: PLC0415 - as above

        sys.meta_path.remove(self)  # type: ignore[arg-type] # it has what a finder needs
        spec: Any = find_spec(name)
        load = spec.loader.exec_module

        def replaced(module: Any) -> None:
            load(module)
            module.local_connect_and_auth = lambda *_: self._connection

        spec.loader.exec_module = replaced
        return spec


if PORT in os.environ and any("streaming" in word for word in sys.orig_argv):
    sys.meta_path.insert(0, Finder(connected()))  # type: ignore[arg-type] # as above
