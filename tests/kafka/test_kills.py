"""The broker is killed every few seconds under load of two clients; `python -m tests.kafka.kills` does it for long."""

from __future__ import annotations

import gc

import pytest

from tests.kafka.kills import FAULTS, faults, run


@pytest.mark.proof
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what clients leave open
def test_kills_under_load_lose_and_double_nothing_and_show_nothing_that_was_aborted(tmp_path):
    found = run(tmp_path / "root", 20.0, seed=1)
    gc.collect()  # here, where the warnings of what lost its connection are expected
    assert faults(found) == dict.fromkeys(FAULTS, 0), found
    assert found["all"]["kills"] >= 2
    transactional = [one for name, one in found.items() if name.startswith("transactional")]
    assert len(transactional) == 2
    assert all(one["committed"] and one["aborted"] for one in transactional)
