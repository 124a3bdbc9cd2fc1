"""Everything that happened to a message, and a run as a tree, told by a real server up to the present."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from driftq.history.file import history_end, read_history
from tests.contract.serving import PATIENCE_S, Server

TWICE = {"max_attempts": 2, "backoff_ms": 1}


@pytest.fixture(scope="module", params=["with a history", "from the log alone", "in memory"])
def teller(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("teller")
    if request.param == "with a history":
        asked: dict[str, Any] = {"history": str(folder / "history.db"), "segment_records": 12}
        started = Server(folder / "log", **asked)
    else:
        started = Server(folder / "log" if request.param == "from the log alone" else None)
    with started as running:
        yield running


def told(server: Server, topic: str, offset: int) -> dict[str, Any]:
    answer = server.get(f"/v1/messages/{topic}/{offset}")
    assert answer.status == 200, answer
    return dict(answer.json)


def short(history: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(one["what"], one.get("group"), one.get("attempt"), one.get("reason")) for one in history]


@pytest.mark.clause("D8")
def test_a_message_is_told_from_its_storing_to_the_redrive_of_its_letter(teller: Server) -> None:
    topic = teller.new_topic()
    teller.produce(topic, "v", key="k", tenant_id="t", retry_policy=TWICE)
    with teller.consume(topic, owner="w1", lease_ms=30_000) as stream:
        teller.settle("nack", topic, stream.next(), owner="w1", reason="no milk")
        teller.settle("nack", topic, stream.next(), owner="w1", reason="no sugar")
    with teller.consume(topic, group="other", owner="w2", lease_ms=30_000) as stream:
        assert teller.settle("ack", topic, stream.next(), group="other", owner="w2").status == 204
    assert teller.post(f"/v1/dlq/{topic}/redrive", {"by": "ada"}).json["redriven"] == 1

    view = told(teller, topic, 0)
    assert (view["partition"], view["key"], view["value"]) == (0, "k", "v")
    assert view["envelope"] == {"tenant_id": "t", "retry_policy": TWICE}
    # Groups are told apart: within one millisecond there is no order between two of them.
    of_group = [entry for entry in view["history"] if entry.get("group") != "other"]
    assert short(of_group) == [
        ("stored", None, None, None),
        ("delivered", "g", 1, None),
        ("nacked", "g", 1, "no milk"),
        ("delivered", "g", 2, None),
        ("dead", "g", 2, "max_attempts"),
        ("redriven", "g", None, None),
    ]
    of_other = [entry for entry in view["history"] if entry.get("group") == "other"]
    assert short(of_other) == [("delivered", "other", 1, None), ("acked", "other", 1, None)]
    stored, first, *_, dead, redriven = of_group
    assert stored["at"] == view["produced_at"]
    assert (first["owner"], first["lease_until"] > first["at"]) == ("w1", True)
    assert (dead["last_error"], dead["dlq_topic"], dead["dlq_offset"]) == ("no sugar", f"dlq.{topic}", 0)
    assert (redriven["by"], redriven["new_offset"]) == ("ada", 1)
    assert view["groups"] == [
        {"group": "g", "state": "redriven", "attempts": 2, "last_error": "no sugar"},
        {"group": "other", "state": "done", "attempts": 1, "last_error": ""},
    ]

    with teller.consume(topic, group="other", lease_ms=30_000) as stream:
        assert stream.is_quiet(100)
    again = told(teller, topic, 1)
    assert (again["history"][0]["dlq_topic"], again["history"][0]["dlq_offset"]) == (f"dlq.{topic}", 0)
    assert ("passed", "other", None, None) in short(again["history"])
    assert again["groups"] == [{"group": "g", "state": "waiting", "attempts": 0, "last_error": ""}]


@pytest.mark.clause("D8", "A3")
def test_a_lease_that_ended_is_told_and_so_is_who_had_it(teller: Server) -> None:
    topic = teller.new_topic()
    teller.produce(topic, "v")
    with teller.consume(topic, owner="slow", lease_ms=60_000) as stream:
        assert teller.settle("lease/extend", topic, stream.next(), owner="slow", lease_ms=50).status == 204
        stream.next()
        view = told(teller, topic, 0)
    assert short(view["history"])[1:] == [
        ("delivered", "g", 1, None),
        ("expired", "g", 1, "ack_timeout"),
        ("delivered", "g", 2, None),
    ]
    assert view["history"][3]["lease_until"] > view["history"][3]["at"][:-4] + "999Z"
    assert view["groups"][0] == {
        "group": "g",
        "state": "in_flight",
        "attempts": 2,
        "last_error": "ack_timeout",
    }


@pytest.mark.clause("E5")
def test_a_run_is_a_tree_of_steps(teller: Server) -> None:
    other, topic = teller.new_topic(), teller.new_topic(2)  # In this order where a millisecond is shared.
    run = f"run/{topic}"
    teller.produce(topic, "plan", run_id=run, step_id="plan")
    teller.produce(other, "search", run_id=run, step_id="search", parent_step_id="plan")
    teller.produce(topic, "write", run_id=run, step_id="write", parent_step_id="plan")
    teller.produce(
        other, "fetch", run_id=run, step_id="fetch", parent_step_id="search", retry_policy={"max_attempts": 1}
    )
    teller.produce(topic, "not mine", run_id="another", step_id="plan")
    with teller.consume(topic, lease_ms=30_000) as stream:
        for line in stream.take(3):
            if line["value"] == "plan":
                teller.settle("ack", topic, line)
    with teller.consume(other, lease_ms=30_000) as stream:
        search, fetch = stream.take(2)
        teller.settle("nack", other, search, reason="try again")
        assert stream.next()["attempts"] == 2
        teller.settle("nack", other, fetch, reason="no such page")
        view = teller.get(f"/v1/runs/run%2F{topic}").json
    steps = [
        (one["step_id"], one["depth"], one["state"], one["attempts"], one["last_error"])
        for one in view["steps"]
    ]
    assert steps[:3] == [
        ("plan", 0, "done", 1, ""),
        ("search", 1, "in_flight", 2, "try again"),
        ("fetch", 2, "dead", 1, "no such page"),
    ]
    assert steps[3][:4] == ("write", 1, "in_flight", 1)
    assert [one["children"] for one in view["steps"]] == [["search", "write"], ["fetch"], [], []]
    assert (view["run_id"], view["state"]) == (run, "in_flight")
    [message] = view["steps"][2]["messages"]
    assert (message["topic"], message["offset"], message["groups"][0]["group"]) == (other, 1, "g")


@pytest.mark.clause("E5")
def test_a_redriven_step_is_one_step_and_no_longer_dead(teller: Server) -> None:
    topic = teller.new_topic()
    teller.produce(topic, "v", run_id=f"{topic}-r", step_id="s", retry_policy={"max_attempts": 1})
    with teller.consume(topic, lease_ms=30_000) as stream:
        teller.settle("nack", topic, stream.next(), reason="broken")
        assert teller.get(f"/v1/runs/{topic}-r").json["state"] == "dead"
        assert teller.post(f"/v1/dlq/{topic}/redrive", {}).json["redriven"] == 1
        teller.settle("ack", topic, stream.next())
    [step] = teller.get(f"/v1/runs/{topic}-r").json["steps"]
    assert (step["state"], [one["state"] for one in step["messages"]]) == ("done", ["redriven", "done"])


@pytest.mark.clause("E5")
def test_odd_parents_are_still_told(teller: Server) -> None:
    topic = teller.new_topic()
    for step, parent in (("a", "b"), ("b", "a"), ("self", "self"), ("orphan", "nobody")):
        teller.produce(topic, "v", run_id=topic, step_id=step, parent_step_id=parent)
    teller.produce(topic, "v", run_id=topic)
    steps = teller.get(f"/v1/runs/{topic}").json["steps"]
    assert [(one["step_id"], one["depth"]) for one in steps] == [
        ("self", 0),
        ("orphan", 0),
        (None, 0),
        ("a", 0),
        ("b", 1),
    ]
    assert {one["state"] for one in steps} == {"waiting"}


@pytest.mark.clause("E5", "I6")
def test_results_and_jobs_that_look_like_steps_are_none(teller: Server) -> None:
    topic = teller.new_topic()
    effect = {"topic": topic, "group": "g", "idempotency_key": "k", "owner": "o"}
    token = teller.post("/v1/idempotency/begin", effect | {"lease_ms": 30_000}).json["token"]
    result = {"run_id": topic, "step_id": "s"}
    assert teller.post("/v1/idempotency/commit", effect | {"token": token, "result": result}).status == 204
    assert teller.post("/v1/jobs", {"queue": "q", "task": "t", "payload": result}).status == 201
    teller.get(f"/v1/runs/{topic}").refused(404, "NOT_FOUND")
    teller.produce(topic, "v", run_id=topic, step_id="s")
    assert len(teller.get(f"/v1/runs/{topic}").json["steps"]) == 1


@pytest.mark.clause("H2")
def test_what_is_not_there_is_a_404(teller: Server) -> None:
    topic = teller.new_topic()
    teller.get("/v1/messages/nowhere/0").refused(404, "NOT_FOUND")
    teller.get(f"/v1/messages/{topic}/0").refused(404, "NOT_FOUND")
    teller.get(f"/v1/messages/{topic}/first").refused(400, "INVALID_ARGUMENT")
    teller.get("/v1/messages/~jobs/0").refused(404, "NOT_FOUND")
    teller.get("/v1/runs/nobody").refused(404, "NOT_FOUND")
    teller.get("/v1/runs/nobody", limit=1).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("D8", "W6")
def test_the_past_survives_rounds_of_housekeeping_and_a_kill(tmp_path: Path) -> None:
    history = tmp_path / "history.db"
    server = Server(tmp_path / "log", history=str(history), segment_records=20)
    with server:
        topic = server.new_topic()
        server.produce(topic, "v", run_id="r", step_id="s")
        with server.consume(topic, lease_ms=30_000, prefetch=1) as stream:
            server.settle("nack", topic, stream.next(), reason="first")
            line = stream.next()
            before = told(server, topic, 0)
            for _ in range(60):
                server.produce(topic, "more")
            _wait_for(history)
            assert told(server, topic, 0) == before
            server.settle("ack", topic, line)
        server.kill()
        server.start()
        assert short(told(server, topic, 0)["history"])[1:] == [
            ("delivered", "g", 1, None),
            ("nacked", "g", 1, "first"),
            ("delivered", "g", 2, None),
            ("acked", "g", 2, None),
        ]
        assert server.get("/v1/runs/r").json["steps"][0]["state"] == "done"


@pytest.mark.clause("D8", "D4")
def test_a_letter_in_another_partition_than_its_message_is_found_in_the_history(tmp_path: Path) -> None:
    history = tmp_path / "history.db"
    with Server(tmp_path / "log", history=str(history), segment_records=20) as server:
        topic = server.new_topic()
        give_up = {"retryable": False, "reason": "bad"}
        server.produce(topic, "old")
        with server.consume(topic, lease_ms=30_000) as stream:
            assert server.settle("nack", topic, stream.next(), **give_up).status == 204
        assert server.delete(f"/v1/topics/{topic}").status == 200
        assert server.post("/v1/topics", {"name": topic, "partitions": 4}).status == 201
        server.produce(topic, "first")
        place = server.produce(topic, "second", partition_override=3)
        with server.consume(topic, lease_ms=30_000) as stream:
            for line in stream.take(2):
                assert server.settle("nack", topic, line, **give_up).status == 204
        before = told(server, topic, place["offset"])
        assert [one["what"] for one in before["history"]] == ["stored", "delivered", "dead"]
        other = server.new_topic()
        for _ in range(60):
            server.produce(other, "more")
        _wait_for(history)
        assert told(server, topic, place["offset"]) == before


def _wait_for(history: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while not _is_filled(history):
        assert time.monotonic() < end, "no round of housekeeping"
        time.sleep(0.02)


def _is_filled(history: Path) -> bool:
    database = read_history(str(history))
    if database is None:
        return False
    with closing(database):
        return history_end(database) > 1
