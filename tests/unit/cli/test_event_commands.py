"""Events and claims on the command line, and the event store of the Python client, against a real server."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import driftq
from driftq.registry import Effect, EventKey, Handler
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql.sqlite import SqliteDatabase
from tests.harness import ServerProcess
from tests.unit.cli.conftest import Run


def fact(aggregate_id: str, **fields: Any) -> driftq.Event:
    given: dict[str, Any] = {
        "event_id": uuid4().hex,
        "aggregate_type": "order",
        "event_type": "changed",
        "kind": "fact",
    }
    return driftq.Event(**{**given, "aggregate_id": aggregate_id, "payload": None, **fields})


def test_events_are_appended_listed_and_followed(run_client: Run) -> None:
    order = uuid4().hex
    command = ["event", "append", "order", order, "opened", '{"total":5}', "--operation", "create"]
    first = run_client(*command, "--event-id", order)
    assert (first.exit_code, first.stdout) == (0, f"event {order} has sequence 1\n")
    again = run_client(*command, "--event-id", order, "--json")
    assert json.loads(again.stdout)["duplicate"] is True
    piped = run_client("event", "append", "order", order, "paid", "-", "--expected-seq", "1", stdin='{"a":1}')
    assert piped.exit_code == 0
    assert "opened" in run_client("event", "list", "order", order).stdout
    listed = json.loads(run_client("event", "list", "order", order, "--json").stdout)["events"]
    assert [event["payload"] for event in listed] == [{"total": 5}, {"a": 1}]
    logged = [json.loads(line) for line in run_client("event", "log").stdout.splitlines()]
    assert [line["event_type"] for line in logged if line["aggregate_id"] == order] == ["opened", "paid"]


def test_a_conflict_is_one_line_and_exit_1(run_client: Run) -> None:
    late = run_client("event", "append", "order", uuid4().hex, "paid", "--expected-seq", "3")
    assert (late.exit_code, late.stderr.count("\n")) == (1, 1)
    assert "is at sequence 0, not 3 (CONFLICT)" in late.stderr
    assert run_client("event", "append", "order", "o", "paid", "{").exit_code == 2


@pytest.mark.clause("S11")
def test_a_group_prints_the_events_after_its_position(run_client: Run) -> None:
    order, group = uuid4().hex, uuid4().hex
    for number in range(3):
        kind = f"{order}.changed" if number else f"{order}.opened"
        done = run_client("event", "append", "order", order, kind, f'{{"n":{number}}}')
        assert done.exit_code == 0, done.output
    asked = ["events", "follow", "--group", group, "--type", f"{order}.changed", "--count", "1"]
    payloads = []
    for _ in range(2):
        followed = run_client(*asked)
        assert followed.exit_code == 0, followed.output
        payloads += [json.loads(line)["payload"] for line in followed.stdout.splitlines()]
    assert payloads == [{"n": 1}, {"n": 2}]


@pytest.mark.clause("S3", "S4", "S5")
def test_the_client_appends_reads_and_knows_a_conflict(real_server: ServerProcess) -> None:
    order = uuid4().hex
    with driftq.EventStore(f"http://127.0.0.1:{real_server.port}") as store:
        opened = fact(order, operation=driftq.Operation.CREATE, payload={"n": 1})
        assert store.append(opened) == driftq.EventReceipt(opened.event_id, 1, duplicate=False)
        assert store.append(opened).duplicate is True
        changed = fact(order, operation=driftq.Operation.UPDATE, payload=None)
        with pytest.raises(driftq.SequenceConflict) as conflict:
            store.append(changed, expected_seq=4)
        assert (conflict.value.expected_seq, conflict.value.actual_seq) == (4, 1)
        assert store.append(changed, expected_seq=1).sequence_number == 2
        with pytest.raises(driftq.EventIdReused):
            store.append(fact(order, event_id=opened.event_id, payload={"n": 2}))
        more = store.append_all([(fact(order), None), (fact(order), 3)])
        assert [receipt.sequence_number for receipt in more] == [3, 4]
        assert [event.sequence_number for event in store.read("order", order, from_seq=2)] == [2, 3, 4]
        assert next(event.event_id for event in store.log() if event.aggregate_id == order) == opened.event_id


def test_an_embedded_broker_has_an_event_store(tmp_path: Path) -> None:
    with driftq.open(tmp_path) as broker:
        store = driftq.EventStore(broker)
        assert store.append(fact("o")).sequence_number == 1
        assert [event.position for event in store.log()] == [1]


@pytest.mark.clause("K5", "K6")
def test_claims_are_listed_requeued_and_resolved(run: Run, folder: Path) -> None:
    database = SqliteDatabase(str(folder / "driftq-data/pipeline/registry.db"))
    registry = SqlRegistry(database)
    key = EventKey("e-1", "order", "o", 1)
    registry.mark_failed(registry.claim(Handler("bill", Effect.IDEMPOTENT), key), error="no", retryable=False)
    registry.mark_unknown(registry.claim(Handler("mail", Effect.UNKNOWN), key), error="who knows")
    database.close()
    assert "e-1" in run("registry", "list").stdout
    back = run("registry", "requeue", "bill", "e-1", "--by", "me")
    assert back.stdout == "event e-1 of handler bill is ready: requeued by me\n"
    [unknown] = json.loads(run("registry", "list", "--state", "unknown", "--json").stdout)["claims"]
    assert (unknown["handler"], unknown["last_error"]) == ("mail", "who knows")
    done = json.loads(run("registry", "resolve", "mail", "e-1", "--as", "done", "--json").stdout)
    assert done["state"] == "done"
    wrong = run("registry", "requeue", "mail", "e-1")
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (1, 1)


def test_an_upgrade_makes_the_tables_once(run: Run, folder: Path) -> None:
    made = run("db", "upgrade")
    assert made.exit_code == 0
    assert "0001" in made.stdout
    assert run("db", "upgrade").stdout == "all tables are up to date\n"
    assert json.loads(run("db", "upgrade", "--json").stdout) == {"applied": []}
