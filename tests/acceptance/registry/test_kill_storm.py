"""Workers that race each other and are killed at random moments leave every effect exactly once."""

import time
from random import Random

import pytest

from driftq.registry import Effect
from tests.acceptance.registry.conftest import Site
from tests.acceptance.registry.processes import run, start

EVENTS = 400
KILLS = 10


@pytest.mark.clause("K2", "K4", "X1", "X2", "X5")
def test_every_event_of_a_stormy_run_has_its_effect_once(site: Site) -> None:
    random = Random(20)
    crew = [start(site, Effect.TRANSACTIONAL, events=EVENTS) for _ in range(2)]
    for _ in range(KILLS):
        time.sleep(random.uniform(0.05, 0.3))  # When they die shall have nothing to do with what they do.
        crew.pop(0).kill()
        crew.append(start(site, Effect.TRANSACTIONAL, events=EVENTS))
    assert run(site, Effect.TRANSACTIONAL, events=EVENTS) == ["finished"]
    for running in crew:
        assert running.finish() == ["finished"]
    assert site.effects_in_database() == {f"e{number}": 1 for number in range(EVENTS)}
