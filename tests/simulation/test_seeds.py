"""Seeded runs of the whole broker on a disk that fails.

DRIFTQ_SEEDS=5000 runs more of them, DRIFTQ_FIRST_SEED=1000 others.
"""

import logging
import os

import pytest

from driftq.testing.simulator import simulate
from tests.support.thorough import rounds

SEEDS = int(os.environ.get("DRIFTQ_SEEDS", rounds(150, thorough=1500)))
FIRST = int(os.environ.get("DRIFTQ_FIRST_SEED", "0"))
CHUNK = 25


@pytest.mark.clause("T2", "T3", "T4", "T5")
@pytest.mark.clause("P1", "P2", "P4", "P6")
@pytest.mark.clause("G2", "G4", "G5")
@pytest.mark.clause("A1", "A2", "A3", "A5", "A6", "A7")
@pytest.mark.clause("W1", "W2", "W3", "W4", "W6")
@pytest.mark.clause("I1", "I2", "I3", "I4", "I9", "D1")
@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, CHUNK), ids="from_{}".format)
def test_no_seed_breaks_the_contract(first: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, logger="driftq")
    for seed in range(first, min(first + CHUNK, FIRST + SEEDS)):
        simulate(seed)
