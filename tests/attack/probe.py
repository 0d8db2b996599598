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
    append_times: list[float] = []
    appends: Counter[str] = Counter()
    failed: Counter[str] = Counter()
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
                begun = time.monotonic()
                connection.request("POST", "/topics/default/records", b"from an honest client")
                answer = connection.getresponse()
                answer.read()
                appends[str(answer.status)] += 1
                append_times.append(time.monotonic() - begun)
        except (OSError, http.client.HTTPException) as error:
            failed[type(error).__name__] += 1
            times.append(time.monotonic() - begun)
            connection.close()
            connection = _connected(port, context)
        time.sleep(EVERY)
    times.sort()
    append_times.sort()
    found = {"asked": len(times), "p50": _at(times, 50), "p99": _at(times, 99), "slowest": times[-1]}
    append_found = {"append_p50": _at(append_times, 50), "append_p99": _at(append_times, 99)}
    print(json.dumps({**found, **append_found, "failed": failed, "appends": appends}))  # less than a pipe holds


def _at(times: list[float], percentile: int) -> float:
    return times[len(times) * percentile // 100] if times else 0.0


def _connected(port: int, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
    if context is None:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
