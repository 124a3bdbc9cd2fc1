"""Effects that stay unknown after a crash, over HTTP: begin, resolve, status, and the steps of a run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.serving import Answer, Server
from tests.support.waiting import wait_until


class StepOf:
    """One step of a run of its own, on a server that is shared."""

    runs = 0

    def __init__(self, server: Server, step: str = "charge", run: str | None = None) -> None:
        StepOf.runs += 1
        self.server = server
        self.run = run or f"run-{StepOf.runs}"
        self.identity = {"topic": "steps", "group": "agent", "idempotency_key": f"step:{self.run}/{step}"}

    def begin(self, owner: str = "a", lease_ms: int = 30_000, **fields: Any) -> dict[str, Any]:
        answer = self.ask("begin", owner=owner, lease_ms=lease_ms, **fields)
        assert answer.status == 200, answer
        return dict(answer.json)

    def ask(self, verb: str, **fields: Any) -> Answer:
        return self.server.post(f"/v1/idempotency/{verb}", self.identity | fields)

    def lapse(self, **fields: Any) -> int:
        """Begin it, and let the lease end without a word."""
        token = self.begin(lease_ms=1, **fields)["token"]
        wait_until("the lease is over", lambda: self.status() == "UNKNOWN", within_s=10)
        return int(token)

    def status(self) -> str:
        answer = self.server.get("/v1/idempotency/status", **self.identity)
        return str(answer.json["status"])

    def explained(self) -> dict[str, Any]:
        answer = self.server.get(f"/v1/runs/{self.run}")
        assert answer.status == 200, answer
        return dict(answer.json)


@pytest.fixture
def step(server: Server) -> StepOf:
    return StepOf(server)


@pytest.mark.clause("I11")
def test_a_lapsed_unknown_effect_does_not_begin_again_until_it_is_resolved(step: StepOf) -> None:
    token = step.lapse(effect="unknown")
    for effect in ("unknown", "idempotent"):
        answer = step.begin("b", effect=effect)
        assert (answer["outcome"], answer["owner"]) == ("unknown", "a")
    assert step.begin("b")["outcome"] == "unknown", "what was declared at its begin counts"
    assert step.ask("resolve", **{"as": "retry"}).status == 204
    begun = step.begin("b", effect="unknown")
    assert (begun["outcome"], begun["token"] > token) == ("proceed", True)
    late = step.ask("commit", owner="a", token=token, result="late")
    assert late.refused(409, "FAILED_PRECONDITION")["reason"] == "superseded"


@pytest.mark.clause("I11")
def test_an_effect_that_is_resolved_as_committed_returns_the_given_result(step: StepOf) -> None:
    step.lapse(effect="unknown")
    resolution = {"as": "committed", "result": {"charge": "ch-1"}}
    assert step.ask("resolve", **resolution).status == 204
    assert step.begin("b")["result"] == {"charge": "ch-1"}
    assert step.ask("resolve", **resolution).status == 204, "a repeated resolution changes nothing"
    assert step.ask("resolve", **{"as": "committed", "result": "other"}).status == 204
    assert step.begin("b")["result"] == {"charge": "ch-1"}
    assert step.ask("resolve", **{"as": "retry"}).refused(409, "FAILED_PRECONDITION")["reason"] == "committed"


@pytest.mark.clause("I11")
def test_the_owner_itself_may_still_commit_after_its_lease(step: StepOf) -> None:
    token = step.lapse(effect="unknown")
    assert step.ask("commit", owner="a", token=token, result=5).status == 204
    assert step.begin("b")["outcome"] == "already_committed"


@pytest.mark.clause("I11")
def test_a_lapsed_idempotent_effect_begins_again(step: StepOf) -> None:
    first = step.begin(lease_ms=1, effect="idempotent")
    wait_until(
        "it is free", lambda: step.begin("b", effect="idempotent")["outcome"] == "proceed", within_s=10
    )
    assert step.ask("commit", owner="a", token=first["token"]).refused(409, "FAILED_PRECONDITION")


@pytest.mark.clause("I11")
def test_only_what_has_lapsed_or_failed_can_be_resolved(step: StepOf) -> None:
    step.ask("resolve", **{"as": "retry"}).refused(404, "NOT_FOUND")
    begun = step.begin(effect="unknown")
    refused = step.ask("resolve", **{"as": "committed"}).refused(409, "FAILED_PRECONDITION")
    assert (refused["reason"], refused["owner"]) == ("held", "a")
    assert step.ask("fail", owner="a", token=begun["token"], error="card declined").status == 204
    assert step.ask("resolve", **{"as": "retry"}).status == 204
    assert step.begin("b")["outcome"] == "proceed", "who reports a failure says that nothing happened"


@pytest.mark.parametrize(
    "fields",
    [
        {"as": "done"},
        {},
        {"as": "retry", "result": 1},
        {"as": "committed", "by": "ada"},
    ],
)
def test_a_resolution_that_says_something_else_is_refused(step: StepOf, fields: dict[str, Any]) -> None:
    step.lapse(effect="unknown")
    step.ask("resolve", **fields).refused(400, "INVALID_ARGUMENT")
    assert step.status() == "UNKNOWN"


@pytest.mark.clause("I11")
def test_a_result_lasts_for_the_ttl_of_its_step(step: StepOf, server: Server) -> None:
    token = step.begin(ttl_ms=400)["token"]
    assert step.ask("commit", owner="a", token=token, result="short").status == 204
    assert step.begin("b")["result"] == "short"
    wait_until("the result is forgotten", lambda: step.begin("b")["outcome"] == "proceed", within_s=10)
    week = 7 * 24 * 3_600_000
    long = StepOf(server)
    token = long.begin(ttl_ms=4 * week)["token"]
    assert long.ask("commit", owner="a", token=token, result="long").status == 204
    assert long.begin("b")["result"] == "long"
    answer = StepOf(server).ask("begin", owner="a", lease_ms=1_000, ttl_ms=14 * week)
    assert answer.refused(400, "INVALID_ARGUMENT")["field"] == "ttl_ms"


@pytest.mark.clause("I11")
def test_a_run_is_shown_as_a_tree_of_its_steps(server: Server) -> None:
    plan = StepOf(server, "plan")
    search = StepOf(server, "search", plan.run)
    charge = StepOf(server, "charge", plan.run)
    token = plan.begin(effect="idempotent")["token"]
    searched = search.begin(effect="idempotent", parent_step_id="plan")["token"]
    search.ask("fail", owner="a", token=searched, error="timeout")
    searched = search.begin(effect="idempotent", parent_step_id="plan")["token"]
    assert search.ask("commit", owner="a", token=searched, result=["a"]).status == 204
    charge.lapse(effect="unknown", parent_step_id="plan")
    shown = plan.explained()
    assert shown["state"] == "unknown"
    steps = {each["step_id"]: each for each in shown["steps"]}
    assert shown["steps"][0]["step_id"] == "plan"
    assert sorted(steps["plan"]["children"]) == ["charge", "search"]
    assert {name: each["state"] for name, each in steps.items()} == {
        "plan": "in_flight",
        "search": "done",
        "charge": "unknown",
    }
    assert (steps["search"]["attempts"], steps["search"]["depth"]) == (2, 1)
    assert steps["search"]["effects"][0]["result"] == ["a"]
    assert plan.ask("fail", owner="a", token=token, error="gave up").status == 204
    assert {each["step_id"]: each["last_error"] for each in plan.explained()["steps"]}["plan"] == "gave up"
    server.get("/v1/runs/never-run").refused(404, "NOT_FOUND")
