"""Workers killed with SIGKILL between claim, effect and mark, and what the next one finds."""

import pytest

from driftq.registry import ClaimOutcome, ClaimState, Effect, Resolution
from tests.acceptance.registry.conftest import Site
from tests.acceptance.registry.processes import kill_at, run
from tests.acceptance.registry.worker_process import STEPS, event, handler

BEFORE_THE_MARK = STEPS[:-1]


@pytest.mark.clause("K2", "K4", "K6", "X2")
@pytest.mark.parametrize("step", STEPS)
def test_a_transactional_effect_happens_once(site: Site, step: str) -> None:
    kill_at(site, Effect.TRANSACTIONAL, step)
    done = step == "after_mark_done"
    assert site.effects_in_database() == ({"e0": 1} if done else {})
    assert site.lines("acks") == []
    assert run(site, Effect.TRANSACTIONAL) == ["finished"]
    assert site.effects_in_database() == {"e0": 1}
    assert site.lines("acks") == ["e0"]
    stored = site.registry.find(handler(Effect.TRANSACTIONAL).name, "e0")
    assert (stored.state, stored.attempts) == (ClaimState.DONE, 1 if done else 2)


@pytest.mark.clause("K2", "K4", "K6", "X2")
@pytest.mark.parametrize("step", STEPS)
def test_an_idempotent_effect_is_repeated_until_it_is_marked(site: Site, step: str) -> None:
    kill_at(site, Effect.IDEMPOTENT, step)
    happened = step not in ("claimed", "before_effect")
    done = step == "after_mark_done"
    assert len(site.lines("effects")) == happened
    assert site.lines("acks") == []
    assert run(site, Effect.IDEMPOTENT) == ["finished"]
    tokens = [int(line.split()[1]) for line in site.lines("effects")]
    assert len(tokens) == happened + (not done)
    assert tokens == sorted(set(tokens)), "the later effect carries the newer token"
    assert site.lines("acks") == ["e0"]


@pytest.mark.clause("K2", "K6", "X2")
@pytest.mark.parametrize("step", BEFORE_THE_MARK)
def test_an_unknown_effect_is_reported_and_never_guessed(site: Site, step: str) -> None:
    kill_at(site, Effect.UNKNOWN, step)
    before = site.lines("effects")
    assert run(site, Effect.UNKNOWN) == ["unknown e0", "finished"]
    assert site.lines("effects") == before, "it is not repeated"
    assert site.lines("acks") == [], "and not taken for done"
    [unknown] = site.registry.list_claims(ClaimState.UNKNOWN)
    assert (unknown.event_id, unknown.attempts) == ("e0", 1)
    happened = bool(before)
    answer = Resolution.DONE if happened else Resolution.RETRY
    site.registry.resolve(handler(Effect.UNKNOWN).name, "e0", answer, by="the test")
    assert run(site, Effect.UNKNOWN) == ["finished"]
    assert len(site.lines("effects")) == 1
    assert site.lines("acks") == ["e0"]


@pytest.mark.clause("K2", "X2")
def test_an_unknown_effect_that_was_marked_is_done(site: Site) -> None:
    kill_at(site, Effect.UNKNOWN, "after_mark_done")
    claim = site.registry.claim(handler(Effect.UNKNOWN), event(0))
    assert claim.outcome is ClaimOutcome.DUPLICATE_DONE
    assert len(site.lines("effects")) == 1
