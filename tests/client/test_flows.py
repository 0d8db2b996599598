"""Trying again, driven by hand: what is sent again and when, and what is raised in the end."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import seglog
from seglog.client.flows import fetch
from seglog.client.requests import topic_calls
from seglog.client.requests.call import Answer, Call, Pause, advance
from seglog.client.retrying import Retries, once_keys, retrying

GET: Call[Any] = Call("GET", "/topics", lambda answer: answer.body)
POST: Call[Any] = Call("POST", "/topics", lambda answer: answer.body, repeatable=False)
GONE = seglog.ConnectionFailed("gone", sent=True)
AWAY = seglog.ConnectionFailed("away", sent=False)
FULL = Answer(503, {}, b"")
GOOD = Answer(200, {}, b"good")
STEADY = {"chance": lambda: 1.0}


def play(call: Call[Any], outcomes: list[Any], retries: Retries) -> tuple[Any, list[float]]:
    """Give each sending of the call an outcome in turn; return what comes of it, and the pauses."""
    flow, pauses, outcome, left = retrying(call, retries), [], None, list(outcomes)
    try:
        while True:
            step = advance(flow, outcome)
            outcome = None if isinstance(step, Pause) else left.pop(0)
            if isinstance(step, Pause):
                pauses.append(step.seconds)
    except StopIteration as end:
        return end.value, pauses
    except seglog.SeglogError as error:
        return error, pauses


def _stream(**columns: Any) -> bytes:
    table, out = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


NOTHING_OF_OURS = (b"", _stream(a=[1]), _stream(offset=["x"], timestamp=[1], key=[b""], value=[b""], headers=[None]))


@pytest.mark.parametrize("body", NOTHING_OF_OURS)
@pytest.mark.parametrize("reached", ['{"t": {"0": 5}}', "{}", "[]"])
def test_records_of_a_server_that_is_none_of_ours_are_an_error_of_ours(body: bytes, reached: str) -> None:
    head = {"seglog-next-offset": "5", "seglog-epoch": "0", "seglog-log": "ab", "seglog-next-offsets": reached}
    page = topic_calls.read_range("t", 0, 0, 5, max_records=5, max_bytes=5)
    assert isinstance(play(page, [Answer(200, head, body)], Retries(0))[0], seglog.ServerError)
    flow = fetch({"t": {0: 3}}, max_records=5, max_bytes=5, wait=0, retries=Retries(0))
    advance(flow, None)
    with pytest.raises(seglog.ServerError):
        advance(flow, Answer(200, head, body))


def test_a_good_answer_is_read_at_once() -> None:
    assert play(GET, [GOOD], Retries()) == (b"good", [])


@pytest.mark.parametrize("trouble", [GONE, AWAY, FULL, Answer(429, {}, b""), Answer(408, {}, b"")])
def test_what_passes_is_tried_again_with_growing_pauses(trouble: Any) -> None:
    assert play(GET, [trouble] * 3 + [GOOD], Retries(8, **STEADY)) == (b"good", [0.05, 0.1, 0.2])


def test_pauses_do_not_grow_for_ever_and_are_never_the_same_for_all() -> None:
    _, pauses = play(GET, [AWAY] * 30 + [GOOD], Retries(50, **STEADY))
    assert max(pauses) == 5.0
    assert [Retries(chance=lambda at=at: at).pause(1, None, 0) for at in (0.0, 0.5)] == pytest.approx([0.025, 0.0375])


def test_the_last_trouble_is_raised_when_tries_are_used_up() -> None:
    error, pauses = play(GET, [AWAY, AWAY, FULL], Retries(2))
    assert isinstance(error, seglog.Busy)
    assert len(pauses) == 2
    assert play(GET, [AWAY], Retries(0)) == (AWAY, [])


def test_or_when_the_time_is() -> None:
    now = iter(range(100))
    error, pauses = play(GET, [AWAY] * 20, Retries(None, 5.0, clock=lambda: float(next(now))))
    assert error is AWAY
    assert 3 <= len(pauses) <= 5


def test_the_server_is_given_the_time_it_asks_for() -> None:
    assert play(GET, [Answer(503, {"retry-after": "3"}, b""), GOOD], Retries()) == (b"good", [3.0])


def test_but_not_an_hour_nor_for_ever() -> None:
    for said in ("3600", "99999999999", "inf"):
        assert play(GET, [Answer(503, {"retry-after": said}, b""), GOOD], Retries()) == (b"good", [30.0])


def test_what_must_not_happen_twice_is_not_sent_twice() -> None:
    assert play(POST, [GONE, GOOD], Retries()) == (GONE, [])
    assert play(POST, [AWAY, FULL, GOOD], Retries())[0] == b"good", "the server did nothing"


@pytest.mark.parametrize("status", [400, 404, 409, 500])
def test_a_refusal_is_raised_at_once(status: int) -> None:
    error, pauses = play(GET, [Answer(status, {}, b"")], Retries())
    assert isinstance(error, seglog.ServerError)
    assert pauses == []


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"topics":[{}]}', b'{"topics":1}'])
def test_an_answer_that_says_something_else_is_a_server_error(body: bytes) -> None:
    error, _ = play(topic_calls.topics(), [Answer(200, {}, body)], Retries())
    assert isinstance(error, seglog.ServerError)
    assert "GET /topics" in str(error)


@pytest.mark.parametrize("number", [b"1e999", b"Infinity", b"NaN", b'"x"', b"[" * 100_000])
def test_an_answer_with_a_number_that_is_none_is_a_server_error(number: bytes) -> None:
    error, _ = play(topic_calls.truncate("t", 0, 3), [Answer(200, {}, b'{"next_offset": %s}' % number)], Retries())
    assert isinstance(error, seglog.ServerError)
    assert "POST /topics/t" in str(error)


def test_no_two_clients_give_the_same_key() -> None:
    one, other = once_keys(), once_keys()
    assert len({one(), one(), other(), other()}) == 4
    assert all(key.isascii() and key.isprintable() and len(key) < 60 for key in (one(), other()))
