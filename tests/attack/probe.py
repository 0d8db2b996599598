"""An honest client beside the attackers: how long its answers take.

Prints CONNECTED after its first answer, and JSON when its time is over.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections import Counter

EVERY = 0.02
APPEND_EVERY = 10  # requests
PATIENCE = 30.0
CONNECTED = "connected"


def probe(port: int, seconds: float, *, tls: bool) -> None:
    """Send requests on one connection, opened before any attack, until the time is over."""
    context = ssl._create_unverified_context() if tls else None  # noqa: S323 - a certificate of this test
    times: list[float] = []
    appends: Counter[str] = Counter()
    failed = 0
    connection = _connected(port, context)
    ends = time.monotonic() + seconds
    while (begun := time.monotonic()) < ends:
        try:
            connection.request("GET", "/ready")
            connection.getresponse().read()
            times.append(time.monotonic() - begun)
            if len(times) == 1:
                print(CONNECTED, flush=True)
            if len(times) % APPEND_EVERY == 0:
                connection.request("POST", "/topics/default/records", b"from an honest client")
                answer = connection.getresponse()
                answer.read()
                appends[str(answer.status)] += 1
        except (OSError, http.client.HTTPException):
            failed += 1
            times.append(time.monotonic() - begun)
            connection.close()
            connection = _connected(port, context)
        time.sleep(EVERY)
    times.sort()
    found = {"asked": len(times), "p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100]}
    print(json.dumps({**found, "slowest": times[-1], "failed": failed, "appends": appends}))  # less than a pipe holds


def _connected(port: int, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
    if context is None:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
