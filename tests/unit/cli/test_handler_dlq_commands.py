"""`driftq dlq` for dead letters of workers and projections: listed once, with marks, redriven in place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from driftq.pipeline.dead_letters.driftq_letters import DriftqDeadLetters
from driftq.pipeline.dead_letters.relay import Relay
from driftq.pipeline.worker.store import WorkerStore
from driftq.registry import ClaimState, Effect, EventKey, Handler
from driftq.registry.parking import ParkedEvent
from driftq.settings import PipelineOptions, load_settings
from driftq.sinks import Application, ParquetSink, ProjectionDeadLetter, ReadModelSink, SqliteSink
from driftq.sinks.dead_letters import HasOutbox, handler_dead_letter
from tests.harness import ServerProcess
from tests.unit.cli.conftest import Run

BILLING = Handler("billing", Effect.IDEMPOTENT)


@pytest.fixture
def options(real_server: ServerProcess, tmp_path: Path) -> PipelineOptions:
    (tmp_path / "pipeline").mkdir()
    url = f"http://127.0.0.1:{real_server.port}"
    return load_settings(environ={}).pipeline(url=url, data=str(tmp_path))


@pytest.fixture
def dlq(run_client: Run, options: PipelineOptions, topic: str) -> Callable[..., Any]:
    """`driftq dlq VERB TOPIC … --data DIR`."""

    def invoke(verb: str, *words: str) -> Any:
        return run_client("dlq", verb, topic, *words, "--data", options.data)

    return invoke


def give_up_in_worker(
    options: PipelineOptions, topic: str, *, offset: int = 7, error: str = "no", retry: bool = False
) -> str:
    """A worker gives an event up, or gives it up again, and its relay publishes the dead letter."""
    store = WorkerStore.open(options)
    key = EventKey(f"e-{topic}-{offset}", "order", f"o-{offset}", 1)
    claim = store.claims.claim_all(BILLING, [key])[0]
    assert claim.granted
    message = ParkedEvent(topic=topic, partition=1, offset=offset, value="the text")
    if not retry:
        store.parking.park(BILLING.name, [(key, message)])
    store.claims.mark_failed(claim, error=error, retryable=False)
    outbox = store.dead_letters.take_over(BILLING.name)
    assert Relay("worker", [outbox], DriftqDeadLetters(options.url)).run() == 1
    store.close()
    return key.event_id


def event(topic: str, sequence: int, **fields: Any) -> str:
    given = {
        "event_id": f"{topic}-{sequence}",
        "aggregate_type": "order",
        "aggregate_id": "o-1",
        "sequence_number": sequence,
        "event_type": "placed",
        "kind": "fact",
        "operation": "append",
        "occurred_at": "2026-01-01T00:00:00.000000Z",
        "payload": {"at": sequence},
        "metadata": {},
        "schema_version": 1,
        "position": sequence,
    }
    return json.dumps(given | fields)


def give_up_in_projection(
    options: PipelineOptions,
    topic: str,
    value: str,
    *,
    projection: str = "latest",
    offset: int = 3,
    sink: ReadModelSink | None = None,
) -> None:
    model = (sink or SqliteSink(options.read_models_file)).connect(projection)
    epoch = model.take_over()
    dead = ProjectionDeadLetter(topic, 0, offset, None, "write", "refused", value, key="o-1")
    model.apply(Application(dead_letters=[dead]), epoch)
    topics = DriftqDeadLetters(options.url)
    if isinstance(model, HasOutbox):
        Relay("projection", [model.outbox(epoch)], topics).run()
    else:
        topics.publish([handler_dead_letter(projection, dead, at=1_000)])
    model.close()


def rows(options: PipelineOptions, *, projection: str = "latest", sink: ReadModelSink | None = None) -> Any:
    model = (sink or SqliteSink(options.read_models_file)).connect(projection)
    try:
        return [(row.aggregate_id, row.sequence_number, row.state) for row in model.rows()]
    finally:
        model.close()


@pytest.mark.clause("K5", "K10", "K5d")
def test_a_workers_dead_letter_is_listed_shown_redriven_and_shown_as_redriven(
    dlq: Callable[..., Any], run_client: Run, options: PipelineOptions, topic: str
) -> None:
    event_id = give_up_in_worker(options, topic, error="card declined")
    [entry] = [
        one for one in json.loads(run_client("dlq", "list", "--json").stdout)["dlqs"] if one["topic"] == topic
    ]
    assert entry["messages"] == 1
    [shown] = json.loads(dlq("show", "--json").stdout)["messages"]
    facts = shown["envelope"]["dlq"]
    assert (facts["kind"], facts["group"], facts["stage"]) == ("worker", "billing", "handle")
    assert (facts["last_error"], facts["event_id"], shown["value"]) == ("card declined", event_id, "the text")
    assert "redriven_at" not in shown
    table = dlq("show").stdout
    assert "worker billing" in table
    assert facts["id"] in table

    dry = dlq("redrive", "--dry-run")
    assert dry.stdout.splitlines() == ["1 dead letters match, a dry run redrives none"]
    before = run_client("topic", "show", topic, "--json").stdout
    done = dlq("redrive", "--by", "ada", "--json")
    assert json.loads(done.stdout) == {"matched": 1, "redriven": 1, "skipped": []}
    assert run_client("topic", "show", topic, "--json").stdout == before, "the source topic has changed"
    store = WorkerStore.open(options)
    claim = store.registry.find("billing", event_id)
    assert (claim.state, claim.attempts, claim.reason) == (ClaimState.READY, 0, "requeued by ada")
    store.close()

    [marked] = json.loads(dlq("show", "--json").stdout)["messages"]
    assert marked["redriven_by"] == "ada"
    assert f"redriven {marked['redriven_at']}" in dlq("show").stdout
    assert dlq("redrive").stdout.splitlines() == ["0 dead letters match, 0 were redriven"]
    twice = dlq("redrive", "--id", facts["id"])
    assert (twice.exit_code, "it was redriven before" in twice.stdout) == (1, True)

    give_up_in_worker(options, topic, error="still declined", retry=True)
    [again] = json.loads(dlq("show", "--json").stdout)["messages"]
    assert (again["envelope"]["dlq"]["id"], again["envelope"]["dlq"]["redrives"]) == (facts["id"], 1)
    assert again["envelope"]["dlq"]["last_error"] == "still declined"
    assert "redriven_at" not in again
    assert json.loads(dlq("redrive", "--json").stdout)["redriven"] == 1


@pytest.mark.clause("K10", "D6")
def test_groups_and_workers_are_redriven_together_each_in_its_way(
    dlq: Callable[..., Any], run_client: Run, real_server: ServerProcess, options: PipelineOptions, topic: str
) -> None:
    assert run_client("produce", topic, "one").exit_code == 0
    stream = real_server.stream(topic, "billing", "w", lease_ms=30_000)
    (given,) = stream.take(1)
    nack = {"topic": topic, "group": "billing", "owner": "w", "reason": "bad", "retryable": False}
    place = {"partition": given["partition"], "offset": given["offset"]}
    assert real_server.client().post("/v1/nack", nack | place).status == 204
    stream.close()
    give_up_in_worker(options, topic)
    states = [
        one["envelope"]["dlq"].get("kind") for one in json.loads(dlq("show", "--json").stdout)["messages"]
    ]
    assert states == [None, "worker"]
    dry = json.loads(dlq("redrive", "--dry-run", "--json", "--kind", "worker").stdout)
    assert (dry["matched"], dry["skipped"]) == (1, [])
    assert json.loads(dlq("redrive", "--json").stdout) == {"matched": 2, "redriven": 2, "skipped": []}
    assert json.loads(dlq("redrive", "--json").stdout) == {"matched": 0, "redriven": 0, "skipped": []}
    assert run_client("dlq", "purge", topic, "--kind", "worker", "--yes").stdout == "1 dead letter purged\n"


@pytest.mark.clause("K10")
@pytest.mark.parametrize("target", ["sqlite", "parquet"])
def test_an_event_of_a_latest_state_projection_is_applied_under_the_guard(
    dlq: Callable[..., Any], options: PipelineOptions, topic: str, tmp_path: Path, target: str
) -> None:
    words: list[str] = []
    sink: ReadModelSink | None = None
    if target == "parquet":
        sink = ParquetSink(str(tmp_path / "models"))
        file = tmp_path / f"app_{topic.replace('-', '_')}.py"
        file.write_text(
            "from driftq.pipeline import App, ParquetSink, Projection\n"
            "app = App()\n"
            f"app.projection(Projection('latest', topic={topic!r}, sink=ParquetSink({sink.folder!r})))\n"
        )
        words = ["--app", str(file)]
    give_up_in_projection(options, topic, event(topic, 2), sink=sink)
    assert rows(options, sink=sink) == []
    assert json.loads(dlq("redrive", "--by", "ada", "--json", *words).stdout)["redriven"] == 1
    assert rows(options, sink=sink) == [("o-1", 2, {"at": 2})]
    [shown] = json.loads(dlq("show", "--json", *words).stdout)["messages"]
    assert shown["redriven_by"] == "ada"

    give_up_in_projection(options, topic, event(topic, 1), offset=4, sink=sink)
    done = json.loads(dlq("redrive", "--json", *words).stdout)
    assert (done["matched"], done["redriven"]) == (1, 1)
    assert rows(options, sink=sink) == [("o-1", 2, {"at": 2})], "an older event won"


@pytest.mark.clause("K10")
def test_an_event_that_still_cannot_be_read_is_refused(
    dlq: Callable[..., Any], options: PipelineOptions, topic: str
) -> None:
    give_up_in_projection(options, topic, "{")
    refused = dlq("redrive")
    assert refused.exit_code == 1
    assert "it still cannot be read" in refused.stdout
    assert "redriven_at" not in json.loads(dlq("show", "--json").stdout)["messages"][0]


@pytest.mark.clause("K10")
def test_an_ordered_projection_is_refused_and_the_rebuild_is_named(
    dlq: Callable[..., Any], options: PipelineOptions, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / f"ordered_{topic.replace('-', '_')}.py"
    file.write_text(
        "from driftq.pipeline import App, Projection, ordered\n"
        "app = App()\n"
        f"app.projection(Projection('totals', topic={topic!r}, fold=ordered(lambda state, event: state)))\n"
    )
    give_up_in_projection(options, topic, event(topic, 1), projection="totals")
    unknown = dlq("redrive")
    assert (unknown.exit_code, "name it with --app" in unknown.stdout) == (1, True)
    refused = dlq("redrive", "--app", str(file), "--json")
    assert refused.exit_code == 1
    [skipped] = json.loads(refused.stdout)["skipped"]
    assert (skipped["reason"], skipped["group"]) == ("rebuild", "totals")
    assert f"driftq pipeline run rebuild --app {file} --name totals" in skipped["message"]
    assert rows(options, projection="totals") == []


@pytest.mark.clause("K10")
def test_values_by_key_are_applied_by_offset(
    dlq: Callable[..., Any], options: PipelineOptions, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / f"keyed_{topic.replace('-', '_')}.py"
    file.write_text(
        "from driftq.pipeline import App, Projection\n"
        "app = App()\n"
        f"app.projection(Projection('prices', topic={topic!r}, key='key'))\n"
    )
    give_up_in_projection(options, topic, '{"price":3}', projection="prices", offset=9)
    assert json.loads(dlq("redrive", "--app", str(file), "--json").stdout)["redriven"] == 1
    assert rows(options, projection="prices") == [("o-1", 10, {"price": 3})]


@pytest.mark.clause("K10")
def test_without_the_registry_a_redrive_says_where_to_look(
    run_client: Run, options: PipelineOptions, topic: str, tmp_path: Path
) -> None:
    give_up_in_worker(options, topic)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    refused = run_client("dlq", "redrive", topic, "--data", str(elsewhere))
    assert refused.exit_code == 1
    assert "the registry does not have it: check --data and DRIFTQ_DATABASE_URL" in refused.stdout
    assert json.loads(run_client("dlq", "show", topic, "--data", str(elsewhere), "--json").stdout)["messages"]
