"""One leader, two followers and an archive, while processes are killed and networks are cut; see `chaos`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import tools
from tests.replication import chaos
from tests.replication.world import versitygw

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proofs import Tell


@pytest.mark.proof
@pytest.mark.parametrize("store", ["moto", "versitygw"])
def test_nothing_acknowledged_is_lost_and_copies_equal_their_leader_whatever_fails(
    store: str, tmp_path: Path, tell: Tell
) -> None:
    if store == "versitygw" and versitygw() is None:
        tools.forbidden("versitygw", "it is not installed")
    tell("leader, two followers and an archive", store=store, **chaos.run(tmp_path, store, 20, seed=24))
