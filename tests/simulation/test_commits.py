"""Commits of several frames, and the judges of the commit path: each way of breaking it is caught."""

import logging
from dataclasses import replace

import pytest

from driftq.testing import simulator
from driftq.testing.checkers import Violation
from driftq.testing.machine import Machine
from driftq.testing.simulator import SimulationFailed, draw_options, simulate
from tests.simulation.sabotage import Sabotage
from tests.simulation.sabotage_commits import COMMITS_CAUGHT, small_frames
from tests.support.thorough import rounds

SEEDS = rounds(40, thorough=400)
SABOTAGE_SEEDS = 240


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits have several frames of one segment, and nothing is logged."""
    caplog.set_level(logging.CRITICAL + 1, logger="driftq")
    small_frames(monkeypatch)


@pytest.mark.clause("P1", "W4", "W5")
def test_commits_of_several_frames_keep_the_contract() -> None:
    for seed in range(SEEDS):
        simulate(seed)


@pytest.mark.clause("P1", "W4", "W5")
@pytest.mark.parametrize(
    ("sabotage", "clauses"), COMMITS_CAUGHT, ids=lambda case: getattr(case, "__name__", "")
)
def test_a_broken_commit_is_caught(
    sabotage: Sabotage, clauses: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Machine, "compare_with_log", lambda self: None)
    monkeypatch.setattr(
        simulator, "draw_options", lambda random: replace(draw_options(random), quick_disk=True)
    )
    sabotage(monkeypatch)
    noticed: list[str | None] = []
    while len(noticed) < SABOTAGE_SEEDS and not clauses & set(noticed):
        noticed.append(_noticed(len(noticed)))
    assert clauses & set(noticed), noticed


def _noticed(seed: int) -> str | None:
    """Who objects to this run."""
    try:
        simulate(seed)
    except SimulationFailed as failure:
        cause = failure.cause
        return cause.clause if isinstance(cause, Violation) else type(cause).__name__
    return None
