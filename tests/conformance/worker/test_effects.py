"""Handlers on Spark that write to sinks and call APIs: outages, stops, refusals and lost answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from driftq.effects import HandlerSinks, HttpEffect
from driftq.errors import InvalidArgument
from driftq.eventstore.published import PublishedEvent
from driftq.pipeline import App
from driftq.pipeline.worker.context import WorkerContext
from driftq.pipeline.worker.timing import RunStopped
from driftq.registry import ClaimState, Effect, GapPolicy, Resolution
from driftq.sinks import Change, SqliteSink
from driftq.sinks.sql_model import SqlReadModel
from driftq.sql import open_database
from tests.conformance.worker.stage import Stage
from tests.support.http_api.process import HttpApi
from tests.support.parquet_outage import Outage


def index(event: PublishedEvent, context: WorkerContext) -> None:
    context.sink("search").upsert(event.payload)


@pytest.fixture
def outage(tmp_path: Path) -> Outage:
    folder = tmp_path / "models"
    folder.mkdir()
    return Outage(folder)


@pytest.fixture
def sinks(outage: Outage) -> Iterator[HandlerSinks]:
    with closing(HandlerSinks({"search": outage.sink})) as bound:
        yield bound


def rows(outage: Outage) -> dict[str, tuple[int, Any]]:
    model = outage.sink.connect("search")
    return {row.aggregate_id: (row.sequence_number, row.state) for row in model.rows()}


@pytest.mark.clause("K4", "K6", "V1")
def test_a_row_has_the_sequence_of_its_event(stage: Stage, sinks: HandlerSinks, outage: Outage) -> None:
    worker = stage.worker(index, gap_policy=GapPolicy.FULL_STATE, sinks=sinks)
    assert stage.run(worker, "a2", "b1") == {"done": 2}
    assert stage.run(worker, "a1", "a2", start=2) == {"stale": 1, "duplicate": 1}
    assert rows(outage) == {"a": (2, {"n": 2}), "b": (1, {"n": 1})}


@pytest.mark.clause("V3", "V3c", "K7")
def test_an_outage_of_the_sink_is_waited_for_and_charges_nothing(
    stage: Stage, sinks: HandlerSinks, outage: Outage
) -> None:
    worker = stage.worker(index, retries=0, sinks=sinks)
    assert stage.run(worker, "a1") == {"done": 1}
    outage.begin()

    def end_at_last() -> None:
        if len(stage.timing.waits) == 5:
            outage.end()

    stage.timing.before_wait = end_at_last
    assert stage.run(worker, "a2", start=1) == {"done": 1}
    assert stage.registry.find("billing", "a-2").attempts == 1
    assert rows(outage) == {"a": (2, {"n": 2})}


@pytest.mark.clause("V3", "V3c")
def test_a_run_that_stops_in_an_outage_gives_its_claim_back_uncharged(
    stage: Stage, sinks: HandlerSinks, outage: Outage
) -> None:
    worker = stage.worker(index, retries=0, sinks=sinks)
    outage.begin()

    def stop() -> None:
        raise RunStopped

    stage.timing.before_wait = stop
    with pytest.raises(RunStopped):
        stage.run(worker, "a1")
    stored = stage.registry.find("billing", "a-1")
    assert (stored.state, stored.attempts) == (ClaimState.READY, 0)
    outage.end()
    stage.timing.before_wait = lambda: None
    assert stage.run(worker, "a1") == {"done": 1}


@pytest.mark.clause("V3", "V3a", "K5")
def test_a_row_that_the_sink_refuses_is_a_dead_letter_with_its_error(stage: Stage, tmp_path: Path) -> None:
    class Refusing(SqlReadModel):
        def put(self, changes: Any) -> None:
            (change,) = changes
            assert isinstance(change, Change)
            if change.aggregate_id == "a":
                raise ValueError("no a here")
            super().put(changes)

    class RefusingSink:
        capabilities = SqliteSink.capabilities

        def connect(self, projection: str) -> SqlReadModel:
            return Refusing(projection, open_database(f"sqlite:///{tmp_path}/rows.db"))

    with closing(HandlerSinks({"search": RefusingSink()})) as bound:
        assert stage.run(stage.worker(index, sinks=bound), "a1", "b1") == {"dead": 1, "done": 1}
    assert "refuses the row: ValueError: no a here" in stage.registry.find("billing", "a-1").last_error


@pytest.fixture
def api(tmp_path: Path) -> Iterator[HttpApi]:
    with HttpApi(tmp_path / "api") as running:
        yield running


@pytest.mark.clause("K6")
def test_a_lost_answer_without_keys_waits_for_an_operator(stage: Stage, api: HttpApi) -> None:
    bank = HttpEffect(f"{api.url}/plain", honours_keys=False)

    def charge(event: PublishedEvent, context: WorkerContext) -> None:
        bank.post(context, json=event.event_id)

    worker = stage.worker(charge, effect=Effect.UNKNOWN)
    api.behave("lose")
    assert stage.run(worker, "a1")["unknown"] == 1
    assert "answer was lost" in stage.registry.find("billing", "a-1").last_error
    api.behave("ok")
    stage.run(worker, "a1")
    assert len(api.requests()) == 1
    stage.registry.resolve("billing", "a-1", Resolution.DONE, by="ada")
    stage.run(worker)
    assert api.effects() == {"a-1": 1}


@pytest.mark.clause("K4", "K6")
def test_a_retry_with_keys_is_performed_once(stage: Stage, api: HttpApi) -> None:
    bank = HttpEffect(f"{api.url}/keyed", honours_keys=True)

    def charge(event: PublishedEvent, context: WorkerContext) -> None:
        api.behave("lose" if context.attempt == 1 else "ok")
        bank.post(context, json=event.event_id)

    assert stage.run(stage.worker(charge), "a1") == {"failed": 1, "done": 1}
    bank.close()
    first, second = api.requests()
    assert (first["key"], api.effects()) == (second["key"], {"a-1": 1})
    assert int(first["token"]) < int(second["token"])


@pytest.mark.clause("K6")
def test_an_app_is_refused_when_a_declaration_does_not_fit() -> None:
    forgets = HttpEffect("http://127.0.0.1:1/x", honours_keys=False)
    app = App()
    with pytest.raises(InvalidArgument, match="declare it unknown"):

        @app.worker(topics=["events.order"], effect=Effect.IDEMPOTENT)
        def charge(event: PublishedEvent, context: WorkerContext) -> None:
            forgets.post(context, json=1)

    with pytest.raises(InvalidArgument, match="has sinks: declare it idempotent"):
        app.worker(topics=["events.order"], effect=Effect.UNKNOWN, sinks={"search": "sqlite:///a.db"})(index)
    with pytest.raises(InvalidArgument, match="there is no sink"):
        app.worker(topics=["events.order"], effect=Effect.IDEMPOTENT, sinks={"search": "no://x"})(index)
    with pytest.raises(InvalidArgument, match="cannot name one"):
        app.worker(topics=["events.order"], effect=Effect.IDEMPOTENT, sinks={"A B": "sqlite:///a.db"})(index)
