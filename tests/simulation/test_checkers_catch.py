"""The judges can say no: each way of breaking the broker is caught within a few seeds.

The comparison of the state with the log is switched off here, so that it is what clients see that gives the
broken broker away.
"""

import logging

import pytest

from driftq.testing.checkers import Violation
from driftq.testing.machine import Machine
from driftq.testing.simulator import SimulationFailed, simulate
from tests.simulation.sabotage import CAUGHT, Sabotage, let_readers_hold_nobody_back
from tests.simulation.sabotage_delays import DELAYS_CAUGHT
from tests.simulation.sabotage_identity import IDENTITY_CAUGHT

SEEDS = 240
STEPS = 250
LONGER: dict[Sabotage, int] = {let_readers_hold_nobody_back: 500}
"""Steps of a run where what is broken is seldom reached."""


@pytest.mark.parametrize(
    ("sabotage", "clauses"),
    [*CAUGHT, *IDENTITY_CAUGHT, *DELAYS_CAUGHT],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_a_broken_broker_is_caught(
    sabotage: Sabotage, clauses: set[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1, logger="driftq")
    monkeypatch.setattr(Machine, "compare_with_log", lambda self: None)
    others: list[str] = []
    for seed in range(SEEDS):
        failure = _run(seed, sabotage, monkeypatch)
        if failure is None:
            continue
        assert f"--seed {seed} --steps {LONGER.get(sabotage, STEPS)}" in str(failure)
        cause = failure.cause
        noticed = cause.clause if isinstance(cause, Violation) else type(cause).__name__
        if noticed in clauses:
            return
        others.append(noticed)  # Something that follows from it was met first.
    pytest.fail(f"no judge of {clauses} noticed {sabotage.__name__} in {SEEDS} seeds; others: {others}")


def _run(seed: int, sabotage: Sabotage, monkeypatch: pytest.MonkeyPatch) -> SimulationFailed | None:
    with monkeypatch.context() as broken:
        sabotage(broken)
        try:
            simulate(seed, steps=LONGER.get(sabotage, STEPS))
        except SimulationFailed as failure:
            return failure
    return None
