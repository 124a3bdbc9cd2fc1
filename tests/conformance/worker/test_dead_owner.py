"""A worker that was killed on this machine: its claims are free at once, however long their lease is."""

import os
import signal
from pathlib import Path

import pytest

from driftq.pipeline.worker.store import WorkerStore
from driftq.registry import Effect, EventKey, Handler
from driftq.registry.liveness import Liveness, ended_owners
from driftq.registry.sql_registry import SqlRegistry
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.conftest import OpenDatabase
from tests.conformance.worker.stage import LEASE_MS, Stage

BILLING = Handler("billing", Effect.IDEMPOTENT, max_retries=2, lease_ms=LEASE_MS)


def claim_and_wait(open_again: OpenDatabase, clock: VirtualClock, folder: Path) -> int:
    """A process that claims `a-1` and never ends by itself; returns when it has the claim."""
    heard, said = os.pipe()
    child = os.fork()
    if child:
        os.close(said)
        assert os.read(heard, 1) == b"!", "the other process failed"
        os.close(heard)
        return child
    try:
        registry = SqlRegistry(open_again(clock))
        presence = Liveness(folder, registry.incarnation)
        claimed = registry.claim_all(BILLING, [EventKey("a-1", "order", "a", 1)])[0].granted
        os.write(said, b"!" if claimed else b"?")
        signal.pause()
        presence.close()
    finally:
        os._exit(1)


@pytest.mark.clause("K3", "X2")
def test_a_living_holder_is_waited_for_and_a_dead_one_is_not(
    stage: Stage, open_again: OpenDatabase, clock: VirtualClock, tmp_path: Path
) -> None:
    folder = tmp_path / "workers"
    child = claim_and_wait(open_again, clock, folder)
    started = stage.timing.now()

    def kill_it_in_a_while() -> None:
        if len(stage.timing.waits) == 3:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    stage.timing.before_wait = kill_it_in_a_while
    stage.ledger = WorkerStore.on(stage.registry, liveness_folder=folder)
    assert stage.run(stage.worker(stage.note), "a1", "b1") == {"done": 2}
    assert stage.seen == ["b1", "a1"]
    assert len(stage.timing.waits) >= 3, "while it lived, it was waited for"
    assert stage.timing.now() - started < LEASE_MS
    assert stage.registry.find("billing", "a-1").attempts == 2, "it was a crash, and it counts"
    assert list(folder.iterdir()) == []


@pytest.mark.clause("K3")
def test_only_those_who_are_gone_are_departed(tmp_path: Path) -> None:
    alive, gone = Liveness(tmp_path, "alive"), Liveness(tmp_path, "gone")
    assert list(ended_owners(tmp_path)) == []
    gone.close()
    for name in ended_owners(tmp_path):
        assert name == "gone"
        break
    assert list(ended_owners(tmp_path)) == ["gone"], "whoever failed to deal with it leaves it to the next"
    assert list(ended_owners(tmp_path)) == []
    alive.close()
