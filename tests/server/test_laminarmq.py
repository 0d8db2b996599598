"""A session written for laminarmq's commit log server works here unchanged."""

from __future__ import annotations

import httpx

from tests.waiting import HANG_SECONDS


def test_a_session_of_laminarmq_works_unchanged(serve):
    with httpx.Client(base_url=serve().url, timeout=HANG_SECONDS) as http:
        assert http.get("/index_bounds").json() == {"highest_index": 0, "lowest_index": 0}
        for index, text in enumerate(["Hello World", "second", "third"]):
            answer = http.post("/records", content=text, headers={"Content-Type": "application/x-www-form-urlencoded"})
            assert answer.json() == {"write_index": index}
        assert http.get("/index_bounds").json() == {"highest_index": 3, "lowest_index": 0}
        assert http.get("/records/1").content == b"second"

        assert http.post("/rpc/truncate", json={"truncate_index": 1}).status_code == 200

        assert http.get("/records/1").status_code == 404
        assert http.get("/index_bounds").json() == {"highest_index": 1, "lowest_index": 0}
        assert http.post("/records", content=b"\x00\xff").json() == {"write_index": 1}
        assert http.get("/records/1").content == b"\x00\xff"


def test_truncating_out_of_bounds_is_404_and_changes_nothing(serve):
    with httpx.Client(base_url=serve().url, timeout=HANG_SECONDS) as http:
        http.post("/records", content="one")

        assert http.post("/rpc/truncate", json={"truncate_index": 2}).status_code == 404
        assert http.get("/index_bounds").json() == {"highest_index": 1, "lowest_index": 0}


def test_the_default_log_survives_a_kill(serve):
    server = serve()
    with httpx.Client(base_url=server.url, timeout=HANG_SECONDS) as http:
        http.post("/records", content="kept")
    server.kill()
    server.start()
    with httpx.Client(base_url=server.url, timeout=HANG_SECONDS) as http:
        assert http.get("/records/0").text == "kept"
