"""Handlers of the worker that write to sinks and call APIs: repeats, outages, refusals, unknown outcomes."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import driftq
from driftq.errors import InvalidArgument
from driftq.registry import ClaimState, Resolution
from driftq.registry.sql_registry import MIGRATIONS, SqlRegistry
from driftq.sinks import PostgresSink, ReadModelSink, SqliteSink
from driftq.sinks.sql_model import SqlReadModel
from driftq.sql import open_database, upgrade
from driftq.testing.embedded import VirtualBroker
from tests.services_postgres import postgres_database_url, postgres_url
from tests.support.http_api.process import HttpApi
from tests.support.parquet_outage import Outage
from tests.support.waiting import wait_until
from tests.unit.worker.conftest import PATIENCE_S, LogLines, Mailbox
from tests.unit.worker.test_worker import wait_for_dead_letter, wait_for_topic

__all__ = ["postgres_database_url", "postgres_url"]


def rows(sink: ReadModelSink, name: str = "search") -> dict[str, tuple[int, Any]]:
    with closing(sink.connect(name)) as model:
        return {row.aggregate_id: (row.sequence_number, row.state) for row in model.rows()}


@pytest.fixture
def waiting_lines() -> Iterator[LogLines]:
    lines, logger = LogLines(), logging.getLogger("driftq.effects")
    logger.addHandler(lines)
    yield lines
    logger.removeHandler(lines)


@pytest.fixture
def outage(tmp_path: Path) -> Outage:
    folder = tmp_path / "models"
    folder.mkdir()
    return Outage(folder)


@pytest.mark.clause("K4", "K6", "V1")
def test_a_row_is_guarded_by_the_offset_of_its_key_or_the_sequence_of_its_event(
    broker: VirtualBroker, mailbox: Mailbox, tmp_path: Path
) -> None:
    broker.create_topic("events.order")
    address = f"sqlite:///{tmp_path}/search.db"
    worker = driftq.Worker(broker, group="search", sinks={"search": address}, on_settled=mailbox.put)

    def index(message: driftq.Message, context: driftq.Context) -> None:
        value = json.loads(message.value)
        if value.get("operation") == "delete":
            context.sink("search").delete()
        else:
            context.sink("search").upsert(value.get("payload", value))

    for topic in ("orders", "events.order"):
        worker.on(topic, effect=driftq.Effect.IDEMPOTENT, concurrency=1)(index)

    def event(sequence: int, operation: str = "update") -> dict[str, Any]:
        place = {"event_id": f"e-{sequence}", "aggregate_type": "order", "aggregate_id": "o-1"}
        return {**place, "sequence_number": sequence, "operation": operation, "payload": {"at": sequence}}

    with worker:
        broker.produce("orders", {"drink": "tea"}, key="ada")
        broker.produce("orders", {"drink": "coffee"}, key="ada")
        for sequence in (2, 1):
            broker.produce("events.order", event(sequence), key="o-1")
        for _ in range(4):
            mailbox.next()
        assert rows(SqliteSink(f"{tmp_path}/search.db")) == {
            "ada": (2, {"drink": "coffee"}),
            "o-1": (2, {"at": 2}),
        }
        broker.produce("events.order", event(3, "delete"), key="o-1")
        broker.produce("events.order", event(2), key="o-1")
        for _ in range(2):
            mailbox.next()
        assert set(rows(SqliteSink(f"{tmp_path}/search.db"))) == {"ada"}


@pytest.mark.clause("V3", "V3c", "K6")
def test_an_outage_of_the_sink_spends_no_attempt(
    broker: VirtualBroker, mailbox: Mailbox, outage: Outage, waiting_lines: LogLines
) -> None:
    attempts: list[int] = []
    worker = driftq.Worker(broker, group="g", sinks={"search": outage.sink}, on_settled=mailbox.put)

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT, max_attempts=1)
    def index(message: driftq.Message, context: driftq.Context) -> None:
        attempts.append(context.attempt)
        context.sink("search").upsert(message.value)

    with worker:
        broker.produce("orders", "tea", key="ada")
        mailbox.next()
        outage.begin()
        broker.produce("orders", "coffee", key="ada")
        waiting_lines.wait_for("waits for its sink search")
        outage.end()
        mailbox.next()
    assert attempts == [1, 1]
    assert rows(outage.sink) == {"ada": (2, "coffee")}


@pytest.mark.clause("V3", "V3c", "G5")
def test_a_worker_that_stops_in_an_outage_gives_its_message_back_uncharged(
    broker: VirtualBroker, mailbox: Mailbox, outage: Outage, waiting_lines: LogLines
) -> None:
    def make() -> driftq.Worker:
        made = driftq.Worker(broker, group="g", sinks={"search": outage.sink}, on_settled=mailbox.put)

        @made.on("orders", effect=driftq.Effect.IDEMPOTENT, max_attempts=1)
        def index(message: driftq.Message, context: driftq.Context) -> int:
            context.sink("search").upsert(message.value)
            return context.attempt

        return made

    with make():
        outage.begin()
        broker.produce("orders", "tea", key="ada")
        waiting_lines.wait_for("waits for its sink search")
    outage.end()
    with make():
        assert mailbox.next().result == 2, "another delivery, and still within its one try"
    assert "dlq.orders" not in broker.topics()
    assert rows(outage.sink) == {"ada": (1, "tea")}


@pytest.mark.clause("V3", "V3a", "D5")
def test_a_row_that_the_sink_refuses_is_a_dead_letter_at_once(
    broker: VirtualBroker, postgres_database_url: str
) -> None:
    sink = PostgresSink(postgres_database_url, schema="refusing")
    worker = driftq.Worker(broker, group="g", sinks={"search": sink})

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT)
    def index(message: driftq.Message, context: driftq.Context) -> None:
        context.sink("search").upsert(message.value, aggregate=("order", "nul \x00 byte"))

    with worker:
        broker.produce("orders", "tea", key="ada")
        wait_for_topic(broker, "dlq.orders")
        letter = wait_for_dead_letter(broker)
    assert letter["reason"] == "not_retryable"
    assert letter["error"].startswith("sink search in postgresql://")


def test_connections_are_kept_between_messages_and_closed_at_the_end(
    broker: VirtualBroker, mailbox: Mailbox, tmp_path: Path
) -> None:
    said: list[str] = []

    class SaysWhenItCloses(SqlReadModel):
        def close(self) -> None:
            said.append("closed")
            super().close()

    class Counting:
        capabilities = SqliteSink.capabilities

        def connect(self, projection: str) -> SqlReadModel:
            said.append("opened")
            return SaysWhenItCloses(projection, open_database(f"sqlite:///{tmp_path}/search.db"))

    worker = driftq.Worker(broker, group="g", sinks={"search": Counting()}, on_settled=mailbox.put)

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT, concurrency=1)
    def index(message: driftq.Message, context: driftq.Context) -> None:
        context.sink("search").upsert(message.value)

    with worker:
        for number in range(5):
            broker.produce("orders", str(number), key="ada")
            mailbox.next()
        assert said == ["opened"]
    assert said == ["opened", "closed"]


def test_what_cannot_work_is_refused_before_a_message_is_read(broker: VirtualBroker, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="did you mean sqlite"):
        driftq.Worker(broker, group="g", sinks={"search": "sqlit:///x"})
    with pytest.raises(InvalidArgument, match="cannot name one"):
        driftq.Worker(broker, group="g", sinks={"Search Me": f"sqlite:///{tmp_path}/x.db"})
    worker = driftq.Worker(broker, group="g", sinks={"search": f"sqlite:///{tmp_path}/x.db"})
    worker.on("orders", effect=driftq.Effect.UNKNOWN)(lambda message, context: None)
    with pytest.raises(InvalidArgument, match="IDEMPOTENT"):
        worker.start()
    absent = tmp_path / "file"
    absent.touch()
    away = driftq.Worker(broker, group="g", sinks={"search": f"sqlite:///{absent}/x.db"})
    away.on("orders", effect=driftq.Effect.IDEMPOTENT)(lambda message, context: None)
    with pytest.raises((driftq.Unavailable, OSError)):
        away.start()


@pytest.mark.clause("K6")
def test_a_handler_that_is_not_idempotent_writes_nothing(broker: VirtualBroker, tmp_path: Path) -> None:
    broker.create_topic("others")
    sink = SqliteSink(f"{tmp_path}/search.db")
    worker = driftq.Worker(broker, group="g", sinks={"search": sink})
    worker.on("others", effect=driftq.Effect.IDEMPOTENT)(lambda message, context: None)

    @worker.on("orders", effect=driftq.Effect.UNKNOWN)
    def index(message: driftq.Message, context: driftq.Context) -> None:
        context.sink("search").upsert(message.value)

    with worker:
        broker.produce("orders", "tea", key="ada")
        wait_for_topic(broker, "dlq.orders")
        assert "declared idempotent" in wait_for_dead_letter(broker)["error"]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[HttpApi]:
    with HttpApi(tmp_path / "api") as running:
        yield running


@pytest.mark.clause("K6", "I6")
def test_a_lost_answer_of_an_api_without_keys_is_resolved_before_it_runs_again(
    broker: VirtualBroker, mailbox: Mailbox, api: HttpApi
) -> None:
    bank = driftq.HttpEffect(f"{api.url}/plain", honours_keys=False)
    worker = driftq.Worker(broker, group="billing", on_settled=mailbox.put)

    @worker.on("orders", effect=driftq.Effect.UNKNOWN)
    def charge(message: driftq.Message, context: driftq.Context) -> Any:
        return bank.post(context, json=message.value).json()

    api.behave("lose")
    broker.produce("orders", "tea", idempotency_key="order-1")
    broker.produce("orders", "coffee", idempotency_key="order-2")
    with worker:
        wait_for_topic(broker, "dlq.orders")
        wait_until("both are given up", lambda: worker_letters(broker) == 2)
    assert worker.unknown == 2
    assert "effect unknown" in wait_for_dead_letter(broker)["error"]
    assert (api.effects(), len(api.requests())) == ({"tea": 1, "coffee": 1}, 2)

    api.behave("ok")
    broker.advance(ms=100)
    name = {"topic": "orders", "group": "billing"}
    broker.idempotency.resolve(**name, idempotency_key="order-1", by="ada", happened=True)
    broker.idempotency.resolve(**name, idempotency_key="order-2", by="ada", happened=False)
    broker.call("POST", "/v1/dlq/orders/redrive", body={})
    with worker:
        settled = [mailbox.next(), mailbox.next()]
    assert sorted((one.message.value, one.duplicate) for one in settled) == [("coffee", False), ("tea", True)]
    assert api.effects() == {"tea": 1, "coffee": 2}, "as the operator decided"


def worker_letters(broker: VirtualBroker) -> int:
    return len(broker.call("GET", "/v1/dlq/orders")["messages"])


@pytest.mark.clause("K6")
def test_with_a_registry_the_lost_answer_is_unknown_there(
    broker: VirtualBroker, mailbox: Mailbox, api: HttpApi, tmp_path: Path
) -> None:
    database = open_database(f"sqlite:///{tmp_path}/registry.db")
    upgrade(database, [MIGRATIONS])
    registry = SqlRegistry(database)
    bank = driftq.HttpEffect(f"{api.url}/plain", honours_keys=False)
    worker = driftq.Worker(broker, group="billing", registry=registry, on_settled=mailbox.put)

    @worker.on("orders", effect=driftq.Effect.UNKNOWN)
    def charge(message: driftq.Message, context: driftq.Context) -> None:
        bank.post(context, json=message.value)

    api.behave("lose")
    broker.produce("orders", "tea", idempotency_key="order-1")
    with worker:
        wait_for_topic(broker, "dlq.orders")
        assert "effect unknown" in wait_for_dead_letter(broker)["error"]
    (unknown,) = registry.list_claims(ClaimState.UNKNOWN)
    registry.resolve(unknown.handler, unknown.event_id, Resolution.DONE, by="ada")
    broker.call("POST", "/v1/dlq/orders/redrive", body={})
    with worker:
        assert mailbox.next().duplicate is True
    assert api.effects() == {"tea": 1}
    database.close()


@pytest.mark.clause("K4", "K6", "I8")
def test_every_delivery_of_a_message_carries_one_key(
    broker: VirtualBroker, mailbox: Mailbox, api: HttpApi
) -> None:
    bank = driftq.HttpEffect(f"{api.url}/keyed", honours_keys=True)
    worker = driftq.Worker(broker, group="billing", on_settled=mailbox.put)
    failed = threading.Event()

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT)
    def charge(message: driftq.Message, context: driftq.Context) -> None:
        try:
            bank.post(context, json=message.value)
        except driftq.Retry:
            api.behave("ok")
            failed.set()
            raise

    api.behave("lose")
    with worker:
        broker.produce("orders", "tea", retry_policy=driftq.RetryPolicy(backoff_ms=1_000))
        assert failed.wait(PATIENCE_S)
        wait_until("it is settled", lambda: advance_until_done(broker))
    bank.close()
    first, second = api.requests()
    assert first["key"] == second["key"]
    assert int(first["token"]) < int(second["token"])
    assert api.effects() == {"tea": 1}


def advance_until_done(broker: VirtualBroker) -> bool:
    broker.advance(ms=500)
    return all(group.lag == 0 for group in broker.topic("orders").groups)


@pytest.mark.clause("K6")
def test_a_handler_that_names_an_api_without_keys_must_be_declared_unknown(broker: VirtualBroker) -> None:
    bank = driftq.HttpEffect("http://127.0.0.1:1/charges", honours_keys=False)
    worker = driftq.Worker(broker, group="billing")
    with pytest.raises(InvalidArgument, match="declare it unknown"):

        @worker.on("orders", effect=driftq.Effect.IDEMPOTENT)
        def charge(message: driftq.Message, context: driftq.Context) -> None:
            bank.post(context, json=message.value)
