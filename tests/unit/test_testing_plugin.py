"""The broker that users get for their tests: time passes when they say so, and nothing is shared."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import driftq
from driftq.model.options.limits import Limits
from driftq.testing.embedded import VirtualBroker

USERS_TEST = """
import driftq

def test_a_lease_ends_when_time_passes(driftq_broker):
    driftq_broker.create_topic("orders")
    driftq_broker.produce("orders", {"id": 1})
    with driftq_broker.consume("orders", "billing", lease_ms=30_000) as deliveries:
        assert next(deliveries).attempt == 1
        driftq_broker.advance(ms=29_999)
        assert deliveries.take(1, within_s=0.05) == []
        driftq_broker.advance(ms=1)
        assert next(deliveries).attempt == 2

def test_every_test_has_its_own(driftq_broker):
    assert driftq_broker.topics() == []

def test_events_and_jobs_live_on_its_clock(driftq_broker):
    store = driftq.EventStore(driftq_broker)
    store.append(driftq.Event(event_id="e", aggregate_type="order", aggregate_id="1", event_type="placed",
                              kind="fact", payload={}))
    [event] = store.read("order", "1")
    assert event.occurred_at == driftq_broker.now()
    jobs = driftq.Jobs(driftq_broker)
    send = jobs.task(queue="mail")(lambda to: None)
    send.enqueue(to="a@b.c", delay=60)
    assert driftq_broker.jobs.claim(["mail"], owner="me") == []
    driftq_broker.advance(ms=60_000)
    assert len(driftq_broker.jobs.claim(["mail"], owner="me")) == 1
"""


@pytest.fixture
def broker() -> Iterator[VirtualBroker]:
    with VirtualBroker.start() as started:
        started.create_topic("orders")
        yield started


def test_a_users_test_gets_a_broker_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(USERS_TEST)
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "driftq.testing.plugin", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environ, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 passed" in ran.stdout


def test_the_plugin_is_announced_to_pytest() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"driftq": "driftq.testing.plugin"}


@pytest.mark.clause("D2")
def test_a_nacked_message_waits_for_the_clock(broker: VirtualBroker) -> None:
    broker.produce("orders", "v")
    with broker.consume("orders", "g") as deliveries:
        next(deliveries).nack("no milk")
        assert deliveries.take(1, within_s=0.05) == []
        broker.advance(ms=200)
        assert next(deliveries).last_error == "no milk"


@pytest.mark.clause("I5")
def test_keys_expire_with_the_clock() -> None:
    with VirtualBroker.start(limits=Limits(idempotency_ttl_ms=60_000)) as broker:
        broker.create_topic("orders")
        broker.produce("orders", "v", idempotency_key="k")
        broker.advance(ms=59_000)
        assert broker.produce("orders", "v", idempotency_key="k").duplicate
        broker.advance(ms=120_000)
        assert not broker.produce("orders", "v", idempotency_key="k").duplicate


@pytest.mark.clause("A1")
def test_a_late_ack_is_refused_as_it_would_be(broker: VirtualBroker) -> None:
    broker.produce("orders", "v")
    with broker.consume("orders", "g", lease_ms=1000, prefetch=1) as deliveries:
        delivery = next(deliveries)
        delivery.extend(5000)
        broker.advance(ms=4000)
        delivery.extend()
        broker.advance(ms=2000)
        with pytest.raises(driftq.FailedPrecondition):
            delivery.ack()
