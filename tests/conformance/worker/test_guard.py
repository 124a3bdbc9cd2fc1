"""Handlers without the registry: the sequence guard alone."""

import pytest

from driftq.eventstore.published import PublishedEvent
from driftq.pipeline.worker.context import WorkerContext
from driftq.pipeline.worker.store import WorkerStore
from driftq.registry import ClaimState
from tests.conformance.worker.stage import Stage


@pytest.fixture
def guarded(stage: Stage) -> Stage:
    stage.ledger = WorkerStore.on(stage.registry, guarded=True)
    return stage


@pytest.mark.clause("K9")
def test_what_is_not_newer_is_left_out_also_by_the_next_process(guarded: Stage, another: Stage) -> None:
    assert guarded.run(guarded.worker(guarded.note), "a1", "b1", "a2", "a2", "a1") == {"done": 3, "stale": 2}
    another.ledger = WorkerStore.on(another.registry, guarded=True)
    assert another.run(another.worker(another.note), "a2", "b1", "a3", start=5) == {"done": 1, "stale": 2}
    assert (sorted(guarded.seen), another.seen) == (["a1", "a2", "b1"], ["a3"])
    assert guarded.registry.list_claims(ClaimState.DONE) == [], "nothing is claimed"


@pytest.mark.clause("K9", "K5", "K8", "K5a", "K5c")
def test_order_retries_and_dead_letters_are_the_same(guarded: Stage) -> None:
    broken = [True]

    def handle(event: PublishedEvent, context: WorkerContext) -> None:
        guarded.note(event, context)
        if broken and event.event_id == "a-1":
            raise RuntimeError(f"no. {context.attempt}")

    worker = guarded.worker(handle)
    assert guarded.run(worker, "a2", "b2") == {"parked": 2}
    assert guarded.run(worker, "a1", start=2) == {"failed": 2, "dead": 1, "done": 1}
    assert guarded.seen == ["a1", "a1", "a1", "a2"]
    assert guarded.registry.find("billing", "a-1").last_error == "RuntimeError: no. 3"
    broken.clear()
    guarded.registry.requeue("billing", "a-1", by="ada")
    assert guarded.run(worker) == {"done": 1}
    assert (guarded.seen[4:], guarded.parked()) == (["a1"], 1)
