"""A worker's run over a partition: order, retries, gaps, and what may be left behind."""

import pytest

from driftq.eventstore.published import PublishedEvent
from driftq.pipeline.worker.context import WorkerContext
from driftq.registry import ClaimState, Effect, EventKey, GapPolicy, Handler, Resolution
from driftq.registry.verdict import Reject, Retry, UnknownEffect
from tests.conformance.worker.stage import LEASE_MS, Stage

BILLING = Handler("billing", Effect.IDEMPOTENT, max_retries=2, lease_ms=LEASE_MS)


def state(stage: Stage, event_id: str) -> ClaimState:
    return stage.registry.find("billing", event_id).state


@pytest.mark.clause("K2")
def test_events_have_their_effect_once_and_in_order(stage: Stage) -> None:
    worker = stage.worker(stage.note)
    assert stage.run(worker, "a1", "b1", "a2", "a2", "b2", "a1") == {"done": 4, "duplicate": 2}
    assert [one for one in stage.seen if one[0] == "a"] == ["a1", "a2"]
    assert [one for one in stage.seen if one[0] == "b"] == ["b1", "b2"]
    assert stage.run(worker, "a1", "b1", "a2", "b2") == {"duplicate": 4}
    assert len(stage.seen) == 4


@pytest.mark.clause("K2", "K6")
@pytest.mark.parametrize("effect", list(Effect))
def test_the_handler_runs_under_a_claim_and_the_mark_comes_after_it(stage: Stage, effect: Effect) -> None:
    tokens = []

    def handle(event: PublishedEvent, context: WorkerContext) -> None:
        assert state(stage, event.event_id) is ClaimState.CLAIMED
        assert (context.transaction is not None) == (effect is Effect.TRANSACTIONAL)
        tokens.append(context.token)

    assert stage.run(stage.worker(handle, effect=effect), "a1", "a2") == {"done": 2}
    assert tokens == sorted(set(tokens)), "the later claim has the newer token"
    assert state(stage, "a-1") is state(stage, "a-2") is ClaimState.DONE


@pytest.mark.clause("K5", "X6", "K5a", "K5c")
def test_a_failing_event_is_retried_while_others_go_on_and_then_kept_as_a_dead_letter(stage: Stage) -> None:
    def handle(event: PublishedEvent, context: WorkerContext) -> None:
        stage.note(event, context)
        if event.aggregate_id == "a" and event.sequence_number == 1:
            raise RuntimeError(f"no. {context.attempt}")

    worker = stage.worker(handle)
    assert stage.run(worker, "a1", "b1", "a2", "c1") == {"failed": 2, "dead": 1, "done": 3}
    assert stage.seen[:3] == ["a1", "b1", "c1"], "nobody else waits for the retries"
    assert stage.seen[3:] == ["a1", "a1", "a2"], "but its own aggregate does"
    dead = stage.registry.find("billing", "a-1")
    assert (dead.state, dead.attempts, dead.last_error) == (ClaimState.DEAD, 3, "RuntimeError: no. 3")
    assert stage.parked() == 1, "with its text"


@pytest.mark.clause("K5", "X6", "K5a")
def test_a_requeued_dead_letter_runs_again_from_its_kept_text(stage: Stage) -> None:
    broken = [True]

    def handle(event: PublishedEvent, context: WorkerContext) -> None:
        stage.note(event, context)
        if broken[0]:
            raise Reject("not like this")

    worker = stage.worker(handle)
    assert stage.run(worker, "a1") == {"dead": 1}
    assert stage.run(worker, "a1") == {"dead": 1}, "a second copy is given up already"
    broken.clear()
    broken.append(False)
    stage.registry.requeue("billing", "a-1", by="ada")
    assert stage.run(worker) == {"done": 1}
    assert (stage.seen, stage.parked()) == (["a1", "a1"], 0)


@pytest.mark.clause("K8")
def test_an_event_whose_predecessor_is_missing_is_parked_until_it_comes(stage: Stage) -> None:
    worker = stage.worker(stage.note)
    assert stage.run(worker, "a3", "b1", "a2") == {"done": 1, "parked": 2}
    assert stage.run(worker, "c1", start=3) == {"done": 1}
    assert stage.run(worker, "a1", start=4) == {"done": 3}
    assert stage.seen == ["b1", "c1", "a1", "a2", "a3"]
    assert stage.parked() == 0


@pytest.mark.clause("K8", "X4")
def test_full_state_ignores_what_is_not_newer(stage: Stage) -> None:
    worker = stage.worker(stage.note, gap_policy=GapPolicy.FULL_STATE)
    assert stage.run(worker, "a3") == {"done": 1}
    assert stage.run(worker, "a1", "a2", "a5", start=1) == {"stale": 2, "done": 1}
    assert stage.seen == ["a3", "a5"]


@pytest.mark.clause("K3")
def test_what_another_holds_is_waited_for_and_costs_no_attempt(stage: Stage, another: Stage) -> None:
    [held] = another.registry.claim_all(BILLING, [EventKey("a-1", "order", "a", 1)])

    def the_other_fails() -> None:
        if len(stage.timing.waits) == 3:
            another.registry.release(held)

    stage.timing.before_wait = the_other_fails
    assert stage.run(stage.worker(stage.note), "a1", "b1") == {"done": 2}
    assert stage.seen == ["b1", "a1"]
    assert stage.registry.find("billing", "a-1").attempts == 1


@pytest.mark.clause("K4")
def test_a_lost_lease_is_told_and_the_work_cannot_be_finished(stage: Stage, another: Stage) -> None:
    """The machine slept for longer than the lease, and somebody else took the event over."""
    lost = []

    def handle(event: PublishedEvent, context: WorkerContext) -> None:
        stage.note(event, context)
        stage.timing.wait(LEASE_MS)
        assert another.run(another.worker(another.note), "a1") == {"done": 1}
        stage.heartbeats.beat()
        lost.append(context.lost)

    assert stage.run(stage.worker(handle), "a1") == {"lost": 1, "duplicate": 1}
    assert (lost, another.seen) == ([True], ["a1"])


@pytest.mark.clause("K6")
def test_an_abandoned_unknown_effect_is_reported_and_its_aggregate_waits(
    stage: Stage, another: Stage
) -> None:
    mail = Handler("billing", Effect.UNKNOWN, max_retries=2, lease_ms=LEASE_MS)
    another.registry.claim_all(mail, [EventKey("a-1", "order", "a", 1)])  # And then its process died.
    worker = stage.worker(stage.note, effect=Effect.UNKNOWN)
    assert stage.run(worker, "a1", "a2", "b1") == {"unknown": 1, "parked": 2, "done": 1}
    assert (stage.seen, state(stage, "a-1")) == (["b1"], ClaimState.UNKNOWN)
    assert stage.run(worker, "a3", start=3) == {"parked": 1}
    stage.registry.resolve("billing", "a-1", Resolution.RETRY, by="ada")
    assert stage.run(worker) == {"done": 3}
    assert (stage.seen, stage.parked()) == (["b1", "a1", "a2", "a3"], 0)


@pytest.mark.clause("K6")
def test_a_handler_may_say_that_nobody_can_tell(stage: Stage) -> None:
    def handle(event: PublishedEvent, context: WorkerContext) -> None:
        stage.note(event, context)
        raise UnknownEffect("the answer of the mail server was lost")

    worker = stage.worker(handle, effect=Effect.UNKNOWN)
    assert stage.run(worker, "a1", "a2") == {"unknown": 1, "parked": 2}
    stage.registry.resolve("billing", "a-1", Resolution.DONE, by="ada")
    assert stage.run(worker) == {"duplicate": 1, "unknown": 1}
    assert stage.seen == ["a1", "a2"]


@pytest.mark.clause("K5", "K5c")
def test_a_message_that_is_no_event_is_kept_and_holds_up_nobody(stage: Stage) -> None:
    worker = stage.worker(stage.note)
    assert stage.run(worker, "?", "a1") == {"dead": 1, "done": 1}
    [dead] = stage.registry.list_claims(ClaimState.DEAD)
    assert dead.event_id == "unfit:events.order/0/0"
    assert "is not a published event" in dead.last_error


@pytest.mark.clause("K5")
def test_what_killed_a_worker_is_tried_alone(stage: Stage, another: Stage) -> None:
    """Of the claims that died together only one can be to blame: the others lose no further attempt."""
    keys = [EventKey(f"{name}-1", "order", name, 1) for name in "abc"]
    another.registry.claim_all(BILLING, keys)  # And then its process died.
    attempts: dict[str, int] = {}

    class Killed(BaseException):
        """In place of a signal."""

    def handle(event: PublishedEvent, context: WorkerContext) -> None:
        attempts[event.aggregate_id] = context.attempt
        if event.aggregate_id == "a" and context.attempt < 3:
            raise Killed

    worker = stage.worker(handle)
    with pytest.raises(Killed):
        stage.run(worker, "a1", "b1", "c1")
    assert {key.event_id: stage.registry.find("billing", key.event_id).attempts for key in keys} == {
        "a-1": 2,
        "b-1": 1,
        "c-1": 1,
    }
    assert stage.run(worker, "a1", "b1", "c1") == {"done": 3}
    assert attempts == {"a": 3, "b": 2, "c": 2}


def test_a_handler_may_ask_for_more_time(stage: Stage) -> None:
    started = stage.timing.now()

    def handle(event: PublishedEvent, context: WorkerContext) -> None:
        if context.attempt == 1:
            raise Retry("the bank is closed", after=3600)

    assert stage.run(stage.worker(handle), "a1") == {"failed": 1, "done": 1}
    assert stage.timing.now() - started >= 3_600_000
