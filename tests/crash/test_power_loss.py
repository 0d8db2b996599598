"""The power is cut at every step of every operation: whatever is left on disk, the next opening finds all
durable records, none that was never appended, and an undamaged log that can be appended to.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import pytest

from seglog.testing.power_loss import PowerLoss
from tests.crash.scenarios import CONFIGS, SCENARIOS, Scenario, any_steps, nothing

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proofs import Tell

SAMPLES = [pytest.param(50, marks=pytest.mark.proof), pytest.param(150, marks=pytest.mark.deep)]
FIRST = 34  # the others do the same after changes of MANIFEST
LONG = "compress, appended to MANIFEST"  # takes as long as all others together: for the proof alone
LINKS = 3
PROOF = "crash states"


def counted(proof: PowerLoss) -> dict[str, int]:
    """Return the counts; AssertionError with the first violations if there are any."""
    assert not proof.counts.violations, f"seed {proof.seed}: {proof.counts.violations[:5]}"
    return {**asdict(proof.counts), "violations": 0}


def one_round(seed: int, root: Path) -> dict[str, int]:
    """Chains of operations drawn by a seed, each going on from what a cut in the one before has left; every fifth round
    one of the scenarios instead, with a larger sample. The keys of the states are kept in `root`.
    """
    proof = PowerLoss(sample=40, seed=seed, again=40)
    if seed % 5 == 4:
        scenario = SCENARIOS[seed // 5 % len(SCENARIOS)]
        proof.sample = 600
        proof.prove(scenario.prepare, scenario.run)
    else:
        config = CONFIGS[seed % len(CONFIGS)]
        proof.prove_chain(nothing, [any_steps(config, seed * LINKS + link) for link in range(LINKS)])
    partial = root / f"partial-{seed}.npy"
    np.save(partial, np.fromiter(proof.seen, np.uint64))
    partial.rename(root / f"states-{seed}.npy")
    return counted(proof)


@pytest.mark.no_cover
@pytest.mark.parametrize("scenario", [one for one in SCENARIOS if one.name != LONG], ids=lambda scenario: scenario.name)
def test_a_power_cut_within_each_operation_loses_nothing_durable(scenario: Scenario) -> None:
    proof = PowerLoss(sample=0, again=10_000, exhaustive=32)
    proof.prove(scenario.prepare, scenario.run)
    counted(proof)


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_state_that_a_power_cut_may_leave(scenario: Scenario, sample: int, tell: Tell) -> None:
    proof = PowerLoss(sample=sample if scenario in SCENARIOS[:FIRST] else sample // 5)
    proof.prove(scenario.prepare, scenario.run)
    tell(PROOF, scenario=scenario.name, **counted(proof))


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(4))  # `make deep` runs many more
def test_power_cuts_one_after_another_in_operations_of_any_order(seed: int, tell: Tell, tmp_path: Path) -> None:
    tell(PROOF, scenario=f"any operations, seed {seed}", **one_round(seed, tmp_path))
