"""A trace goes on from produce to the handler, and from enqueue to the job's run."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest

import driftq
from driftq.telemetry.tracing import current_traceparent
from driftq.testing.embedded import VirtualBroker
from tests.support.tracing import Recorded, recorded_spans
from tests.support.waiting import wait_until
from tests.unit.worker.conftest import PATIENCE_S, Mailbox


@pytest.fixture
def spans() -> Iterator[Recorded]:
    with recorded_spans() as recorded:
        yield recorded


@pytest.mark.clause("O3")
def test_a_message_carries_the_trace_of_its_producer_into_the_handler_and_on(
    broker: VirtualBroker, mailbox: Mailbox, spans: Recorded
) -> None:
    broker.create_topic("receipts")
    worker = driftq.Worker(broker, group="billing", on_settled=mailbox.put)

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT)
    def charge(message: driftq.Message, context: driftq.Context) -> None:
        with spans.tracer.start_as_current_span("charge the card"):
            broker.produce("receipts", "paid")

    with spans.tracer.start_as_current_span("checkout"):
        broker.produce("orders", "two coffees")
    with worker:
        mailbox.next()
    (checkout,), (handled,), (charged,) = map(spans.named, ("checkout", "process orders", "charge the card"))
    assert handled.parent is not None
    assert charged.parent is not None
    assert handled.parent.span_id == checkout.context.span_id
    assert charged.parent.span_id == handled.context.span_id
    assert spans.trace_ids() == {checkout.context.trace_id}
    assert handled.attributes is not None
    assert handled.attributes["messaging.destination.name"] == "orders"
    (receipt,) = list(broker.records("receipts"))
    assert receipt.envelope is not None
    assert receipt.envelope.traceparent is not None
    assert receipt.envelope.traceparent.split("-")[1] == f"{checkout.context.trace_id:032x}"
    assert receipt.envelope.traceparent.split("-")[2] == f"{charged.context.span_id:016x}"


@pytest.mark.clause("O3")
def test_a_handler_that_awaits_and_fails_has_a_span_with_its_error(
    broker: VirtualBroker, spans: Recorded
) -> None:
    worker = driftq.Worker(broker, group="billing")

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT, max_attempts=1)
    async def charge(message: driftq.Message, context: driftq.Context) -> None:
        raise ValueError("the card is declined")

    with worker:
        broker.produce("orders", "one tea", traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
        wait_until("the handler's span has ended", lambda: bool(spans.named("process orders")))
    (handled,) = spans.named("process orders")
    assert handled.context.trace_id == int("a" * 32, 16)
    assert not handled.status.is_ok
    assert [event.name for event in handled.events] == ["exception"]


@pytest.mark.clause("O3")
def test_a_job_runs_in_the_trace_that_enqueued_it(broker: VirtualBroker, spans: Recorded) -> None:
    seen: SimpleQueue[str | None] = SimpleQueue()
    jobs = driftq.Jobs(broker)

    @jobs.task(queue="mail")
    def send(to: str) -> None:
        seen.put(current_traceparent())

    with spans.tracer.start_as_current_span("sign up"):
        send.enqueue(to="ada")
    with jobs:
        inside = seen.get(timeout=PATIENCE_S)
    (signed_up,) = spans.named("sign up")
    assert inside is not None
    assert inside.split("-")[1] == f"{signed_up.context.trace_id:032x}"
    wait_until("the run's span has ended", lambda: bool(spans.named("run send")))
    (run,) = spans.named("run send")
    assert run.parent is not None
    assert run.parent.span_id == signed_up.context.span_id


@pytest.mark.clause("O3")
def test_without_opentelemetry_nothing_is_sent_and_nothing_is_loaded(
    broker: VirtualBroker, mailbox: Mailbox
) -> None:
    contexts: list[Any] = []
    worker = driftq.Worker(broker, group="billing", on_settled=mailbox.put)

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT)
    def charge(message: driftq.Message, context: driftq.Context) -> None:
        contexts.append(context.envelope.traceparent)

    with worker:
        broker.produce("orders", "two coffees")
        mailbox.next()
    assert contexts == [None]
    assert current_traceparent() is None
