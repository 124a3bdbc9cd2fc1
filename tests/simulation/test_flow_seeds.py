"""Seeded runs of limits, pauses, dependencies and schedules on a disk that fails, and judges that can say no.

DRIFTQ_SEEDS=5000 runs more of them, DRIFTQ_FIRST_SEED=1000 others.
"""

import logging
import os
from collections.abc import Callable

import pytest

from driftq.testing.checkers import Violation
from driftq.testing.flow_simulator import simulate_flow
from driftq.testing.machine import Machine
from driftq.testing.simulator import SimulationFailed
from tests.simulation import sabotage_flow
from tests.support.thorough import rounds

SEEDS = int(os.environ.get("DRIFTQ_SEEDS", rounds(50, thorough=250)))
FIRST = int(os.environ.get("DRIFTQ_FIRST_SEED", "0"))
CHUNK = 25

Sabotage = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.clause("J15", "J18", "J19", "J20", "J1", "J5", "J7", "W2", "W3", "W9")
@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, CHUNK), ids="from_{}".format)
def test_no_seed_breaks_the_contract(first: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, logger="driftq")
    for seed in range(first, min(first + CHUNK, FIRST + SEEDS)):
        simulate_flow(seed)


@pytest.mark.parametrize(
    ("sabotage", "clauses"), sabotage_flow.CAUGHT, ids=lambda case: getattr(case, "__name__", "")
)
def test_a_broken_broker_is_caught(
    sabotage: Sabotage, clauses: set[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1, logger="driftq")
    monkeypatch.setattr(Machine, "compare_with_log", lambda self: None)
    for seed in range(40):
        failure = _run(seed, sabotage, monkeypatch)
        if failure is not None:
            assert isinstance(failure.cause, Violation), failure
            assert failure.cause.clause in clauses, failure
            assert f"flow_simulator --seed {seed}" in str(failure)
            return
    pytest.fail(f"{sabotage.__name__} was not noticed")


def _run(seed: int, sabotage: Sabotage, monkeypatch: pytest.MonkeyPatch) -> SimulationFailed | None:
    with monkeypatch.context() as broken:
        sabotage(broken)
        try:
            simulate_flow(seed)
        except SimulationFailed as failure:
            return failure
    return None
