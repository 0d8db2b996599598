"""Records copied over HTTP with all their headers: the mark of an idempotency key does not come along."""

from __future__ import annotations

import json
from urllib.parse import quote

import pyarrow as pa

MARK = b"1 0123456789abcdef order-1"


def _arrow():
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    headers = pa.array([[{"key": "seglog-once", "value": MARK}, {"key": "trace", "value": b"1"}]], pa.list_(pair))
    rows = pa.table({"value": [b"copied"], "headers": headers})
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_table(rows)
    return out.getvalue().to_pybytes()


def _line():
    headers = [{"key": "seglog-once", "value": MARK.decode()}, {"key": "trace", "value": "1"}]
    return json.dumps({"value": "copied", "headers": headers}).encode() + b"\n"


MANY = "/topics/dlq/batches"
ONE = f"/topics/dlq/records?header=seglog-once:{quote(MARK)}&header=trace:1"
COPIES = {
    "one": (ONE, b"copied", "application/octet-stream"),
    "streamed": (ONE, b"copied" * 300_000, "application/octet-stream"),
    "ndjson": (MANY, _line(), "application/x-ndjson"),
    "arrow": (MANY, _arrow(), "application/vnd.apache.arrow.stream"),
}


def test_a_key_that_copied_records_carry_is_free_after_kill_9(serve_with):
    server = serve_with()
    with server.client() as client:
        client.post("/topics", json={"name": "dlq"})
        for path, body, kind in COPIES.values():
            answer = client.post(path, content=body, headers={"Content-Type": kind})
            assert answer.status_code == 200, answer.text
        for offset in range(len(COPIES)):
            record = client.get(
                f"/topics/dlq/partitions/0/records/{offset}", headers={"Accept": "application/json"}
            ).json()
            assert [header["key"] for header in record["headers"]] == ["trace"], record["headers"]
        server.kill()
        server.start()
        for _ in range(2):
            answer = client.post("/topics/dlq/records", content=b"the order", headers={"Idempotency-Key": "order-1"})
            assert (answer.status_code, answer.json()["offset"]) == (200, len(COPIES))
