"""Seeded runs of jobs, effects and dead letters on a disk that fails, and judges that can say no.

DRIFTQ_SEEDS=5000 runs more of them, DRIFTQ_FIRST_SEED=1000 others.
"""

import logging
import os
from collections.abc import Callable

import pytest

from driftq.core.dead_lettered import DeadLettered
from driftq.core.decide import settle
from driftq.core.effects import EffectTable
from driftq.core.jobs import transitions
from driftq.core.jobs.table import JobTable
from driftq.core.records import CAUSE_NACKED, DeliveriesEnded, EffectTerms, EndedDelivery
from driftq.core.state import State
from driftq.errors import EffectSuperseded, StaleLease
from driftq.server.effects import stage as effects
from driftq.server.settle.dead_letters import DeadLetterWriter
from driftq.storage.journal import Journal
from driftq.testing.checkers import Violation
from driftq.testing.machine import Machine
from driftq.testing.simulator import SimulationFailed
from driftq.testing.work_simulator import simulate_work
from tests.simulation import sabotage_clock, sabotage_dead_letters, sabotage_deliveries, sabotage_jobs
from tests.support.thorough import rounds

SEEDS = int(os.environ.get("DRIFTQ_SEEDS", rounds(50, thorough=375)))
FIRST = int(os.environ.get("DRIFTQ_FIRST_SEED", "0"))
CHUNK = 25

Sabotage = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.clause("J1", "J5", "J7", "J8", "J10", "J11", "J14", "J16", "J17")
@pytest.mark.clause("I3", "I6", "I11", "D2", "D3", "D4", "D5", "D6", "G1", "G5", "P2", "P3")
@pytest.mark.clause("W2", "W3", "W4", "W9")
@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, CHUNK), ids="from_{}".format)
def test_no_seed_breaks_the_contract(first: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, logger="driftq")
    for seed in range(first, min(first + CHUNK, FIRST + SEEDS)):
        simulate_work(seed)


def _after_recovery(monkeypatch: pytest.MonkeyPatch, spoil: Callable[[State], None]) -> None:
    recover = Journal.recover

    def forgetful(self: Journal):
        found = recover(self)
        spoil(self.state)
        return found

    monkeypatch.setattr(Journal, "recover", forgetful)


def believe_any_job_token(monkeypatch: pytest.MonkeyPatch) -> None:
    def believe(jobs: JobTable, offset: int, token: int, now: int):
        grant = jobs.grants.get(offset)
        if grant is None:
            raise StaleLease("job", given=token)
        return grant

    monkeypatch.setattr(transitions, "require_grant", believe)


def give_tokens_anew_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(state: State) -> None:
        state.jobs.next_token = 1

    _after_recovery(monkeypatch, spoil)


def forget_who_holds_jobs_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(state: State) -> None:
        for offset in list(state.jobs.grants):
            del state.jobs.grants[offset]
            state.jobs.wait(offset, 0)

    _after_recovery(monkeypatch, spoil)


def retry_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    after = transitions._after_failure

    def again(jobs, offset, error, now, draw, *, retryable):
        failed = after(jobs, offset, error, now, draw, retryable=retryable)
        failed.due_at = max(failed.due_at, now)
        return failed

    monkeypatch.setattr(transitions, "_after_failure", again)


def believe_any_effect_token(monkeypatch: pytest.MonkeyPatch) -> None:
    def believe(state: State, identity, *, owner, token):
        pending = next((one for key, one in state.effects.pending.items() if key[0] == identity), None)
        if pending is None:
            raise EffectSuperseded(given=token, held=None)
        return pending

    monkeypatch.setattr(effects, "require_pending", believe)


def forget_effects_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(state: State) -> None:
        table = EffectTable(ttl_ms=state.limits.effect_ttl_ms)
        table.next_token = state.effects.next_token
        state.effects = table

    _after_recovery(monkeypatch, spoil)


def begin_unknown_effects_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftq.core.decide.effects.is_unknown", lambda pending, now: False)


def forget_what_effects_declared_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(state: State) -> None:
        for pending in state.effects.pending.values():
            pending.terms = EffectTerms()

    _after_recovery(monkeypatch, spoil)


def deliver_once_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    def hopeful(state, topic, group, nack, *, now, jitter):
        decided = settle.decide_nack(state, topic, group, nack, now=now, jitter=jitter)
        if not isinstance(decided, DeadLettered) or not nack.retryable:
            return decided
        ended = EndedDelivery(ordinal=decided.ordinal, due_at=now, error="")
        return DeliveriesEnded(
            at=now, group=group.id, partition=decided.partition, cause=CAUSE_NACKED, ended=[ended]
        )

    monkeypatch.setattr("driftq.server.settle.stage.decide_nack", hopeful)


def write_dead_letters_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    write = DeadLetterWriter._write

    def twice(self: DeadLetterWriter, turn, pending, not_stored) -> None:
        write(self, turn, [pending[0], *pending], not_stored)

    monkeypatch.setattr(DeadLetterWriter, "_write", twice)


def settle_without_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "add_stored", _unless_dead(Journal.add_stored))


def _unless_dead(add):
    def spare(self: Journal, record, entries) -> None:
        if self.state.topics_by_id[record.topic].name.startswith("dlq."):
            record.lengths = record.sizes = b""
            return
        add(self, record, entries)

    return spare


CAUGHT: list[tuple[Sabotage, set[str]]] = [
    (believe_any_job_token, {"J7"}),
    (give_tokens_anew_after_a_restart, {"J7"}),
    (forget_who_holds_jobs_at_a_restart, {"J5", "J7", "J8"}),
    (retry_for_ever, {"J8"}),
    (believe_any_effect_token, {"I6"}),
    (forget_effects_at_a_restart, {"I6", "I11"}),
    (begin_unknown_effects_again, {"I11"}),
    (forget_what_effects_declared_at_a_restart, {"I11"}),
    (deliver_once_too_often, {"D3"}),
    (write_dead_letters_twice, {"D4"}),
    (settle_without_a_dead_letter, {"D4"}),
    *sabotage_clock.CAUGHT,
    *sabotage_dead_letters.CAUGHT,
    *sabotage_jobs.CAUGHT,
]


@pytest.mark.parametrize(
    ("sabotage", "clauses"),
    CAUGHT + sabotage_deliveries.CAUGHT,
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_a_broken_broker_is_caught(
    sabotage: Sabotage, clauses: set[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1, logger="driftq")
    monkeypatch.setattr(Machine, "compare_with_log", lambda self: None)
    for seed in range(240):
        failure = _run(seed, sabotage, monkeypatch)
        if failure is not None:
            assert isinstance(failure.cause, Violation), failure
            assert failure.cause.clause in clauses, failure
            assert f"work_simulator --seed {seed}" in str(failure)
            return
    pytest.fail(f"{sabotage.__name__} was not noticed")


def _run(seed: int, sabotage: Sabotage, monkeypatch: pytest.MonkeyPatch) -> SimulationFailed | None:
    with monkeypatch.context() as broken:
        sabotage(broken)
        try:
            simulate_work(seed)
        except SimulationFailed as failure:
            return failure
    return None
