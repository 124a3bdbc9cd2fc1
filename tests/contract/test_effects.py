"""The consumers' side of idempotency over HTTP: begin, commit, fail, extend, status."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.job_queue import instant
from tests.contract.serving import Answer, Server
from tests.support.waiting import wait_until

RESULTS: list[Any] = [{"charged": 5, "to": ["é", None]}, [], "text", 0, False, None, 1.5, 10**30]


class Effect:
    """One identity on a server that is shared."""

    keys = 0

    def __init__(self, server: Server, **fields: Any) -> None:
        Effect.keys += 1
        self.server = server
        self.identity = {
            "topic": "orders",
            "group": "billing",
            "idempotency_key": f"key {Effect.keys}",
        } | fields

    def ask(self, verb: str, owner: str = "a", **fields: Any) -> Answer:
        return self.server.post(f"/v1/idempotency/{verb}", self.identity | {"owner": owner} | fields)

    def begin(self, owner: str = "a", lease_ms: int = 30_000) -> dict[str, Any]:
        answer = self.ask("begin", owner, lease_ms=lease_ms)
        assert answer.status == 200, answer
        return dict(answer.json)

    def status(self) -> Answer:
        return self.server.get("/v1/idempotency/status", **self.identity)


@pytest.fixture
def effect(server: Server) -> Effect:
    return Effect(server)


def superseded(answer: Answer) -> bool:
    return answer.refused(409, "FAILED_PRECONDITION")["reason"] == "superseded"


@pytest.mark.clause("I6", "I7")
def test_the_first_proceeds_and_the_second_is_told_who_is_at_it(effect: Effect) -> None:
    effect.status().refused(404, "NOT_FOUND")
    before = time.time()
    begun = effect.begin()
    assert (begun["outcome"], begun["token"] > 0) == ("proceed", True)
    after = time.time()
    held = effect.begin("b")
    assert (held["outcome"], held["owner"]) == ("held", "a")
    assert before + 29 < instant(held["lease_until"]) < after + 31
    shown = effect.status().json
    assert (shown["status"], shown["owner"], shown["lease_until"]) == ("PENDING", "a", held["lease_until"])


@pytest.mark.clause("I6", "I7", "I8")
@pytest.mark.parametrize("result", RESULTS, ids=repr)
def test_a_stored_result_is_given_to_duplicates_as_it_was(effect: Effect, result: Any) -> None:
    token = effect.begin()["token"]
    assert effect.ask("commit", token=token, result=result).status == 204
    assert effect.ask("commit", token=token, result="said twice").status == 204
    for owner in ("a", "b"):
        assert effect.begin(owner) == {"outcome": "already_committed", "result": result}
    assert effect.status().json == {"status": "COMMITTED", "owner": "a", "result": result}


@pytest.mark.clause("I6", "I7")
def test_a_commit_needs_no_result(effect: Effect) -> None:
    effect.ask("commit", token=effect.begin()["token"])
    assert effect.begin("b") == {"outcome": "already_committed"}
    assert effect.status().json == {"status": "COMMITTED", "owner": "a"}


@pytest.mark.clause("I2", "I6", "I7")
def test_a_failed_effect_may_begin_again(effect: Effect) -> None:
    token = effect.begin()["token"]
    assert effect.ask("fail", token=token, error="card declined").status == 204
    assert effect.status().json == {"status": "FAILED", "last_error": "card declined"}
    assert superseded(effect.ask("commit", token=token))
    again = effect.begin("b")
    assert (again["outcome"], again["token"] > token) == ("proceed", True)


@pytest.mark.clause("I6", "I7")
def test_a_lapsed_lease_is_taken_over_and_its_holder_cannot_finish(effect: Effect) -> None:
    old = effect.begin(lease_ms=50)["token"]
    time.sleep(0.06)
    new = effect.begin("b")
    assert (new["outcome"], new["token"] > old) == ("proceed", True)
    assert superseded(effect.ask("commit", token=old, result="mine"))
    assert superseded(effect.ask("fail", token=old, error="mine"))
    assert superseded(effect.ask("extend", token=old, lease_ms=1_000))
    assert superseded(effect.ask("commit", "a", token=new["token"]))
    assert effect.ask("commit", "b", token=new["token"], result="theirs").status == 204
    assert superseded(effect.ask("commit", token=old, result="mine"))
    assert effect.begin()["result"] == "theirs"


@pytest.mark.clause("I6")
def test_who_extends_is_not_taken_over(effect: Effect) -> None:
    """That the old lease's end takes nothing away is told in virtual time, in the worker's suite."""
    token = effect.begin(lease_ms=60_000)["token"]
    first = effect.begin("b")
    assert effect.ask("extend", token=token, lease_ms=600_000).status == 204
    held = effect.begin("b")
    assert (first["outcome"], held["outcome"]) == ("held", "held")
    assert instant(held["lease_until"]) > instant(first["lease_until"]) + 500
    assert effect.ask("commit", token=token).status == 204
    assert superseded(effect.ask("extend", token=token, lease_ms=150))


@pytest.mark.clause("I6", "I1")
def test_every_part_of_the_identity_counts(server: Server) -> None:
    effect = Effect(server, tenant_id="acme")
    effect.begin()
    others = [{"tenant_id": "other"}, {"topic": "t"}, {"group": "g"}, {"idempotency_key": "k"}]
    for other in others:
        effect.identity |= {"tenant_id": "acme"}
        one = Effect(server, **effect.identity | other)
        assert one.begin()["outcome"] == "proceed"
    del effect.identity["tenant_id"]
    assert effect.begin()["outcome"] == "proceed"
    effect.identity["tenant_id"] = ""
    assert effect.begin()["outcome"] == "held"


@pytest.mark.clause("I7", "E3", "H2")
@pytest.mark.parametrize(
    ("verb", "wrong"),
    [
        ("begin", {"lease_ms": 0}),
        ("begin", {"lease_ms": 43_200_001}),
        ("begin", {"lease_ms": None}),
        ("begin", {"lease_ms": 1, "idempotency_key": ""}),
        ("begin", {"lease_ms": 1, "group": "a\x00"}),
        ("begin", {"lease_ms": 1, "owner": ""}),
        ("commit", {}),
        ("commit", {"token": 0}),
        ("commit", {"token": 1, "error": "x"}),
        ("fail", {"token": 1, "error": 5}),
        ("extend", {"token": 1}),
    ],
)
def test_what_is_refused(effect: Effect, verb: str, wrong: dict[str, Any]) -> None:
    effect.ask(verb, **wrong).refused(400, "INVALID_ARGUMENT")
    effect.status().refused(404, "NOT_FOUND")


@pytest.fixture
def brief(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "log", limits={"effect_ttl_ms": 8_000, "idempotency_keys_max": 3}) as running:
        yield running


@pytest.mark.clause("I5")
def test_what_is_done_is_forgotten_after_its_time_and_not_before(brief: Server) -> None:
    done, failed, held = Effect(brief), Effect(brief), Effect(brief)
    assert done.ask("commit", token=done.begin()["token"]).status == 204
    assert failed.ask("fail", token=failed.begin()["token"], error="x").status == 204
    assert held.begin(lease_ms=60_000)["outcome"] == "proceed"
    assert done.begin()["outcome"] == "already_committed"
    wait_until("both are forgotten", lambda: done.status().status == failed.status().status == 404)
    assert done.begin()["outcome"] == "proceed"
    assert held.begin("b")["outcome"] == "held"


@pytest.mark.clause("I5")
def test_when_full_new_keys_get_429_and_old_ones_go_on(brief: Server) -> None:
    held = [Effect(brief) for _ in range(3)]
    tokens = [effect.begin()["token"] for effect in held]
    error = Effect(brief).ask("begin", lease_ms=1_000).refused(429, "RESOURCE_EXHAUSTED")
    assert error["reason"] == "idempotency_full"
    assert held[0].ask("commit", token=tokens[0]).status == 204


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "log") as running:
        yield running


@pytest.mark.clause("I3", "I6", "W3")
def test_effects_survive_a_kill(mortal: Server) -> None:
    done, failed, held = Effect(mortal), Effect(mortal), Effect(mortal)
    for effect in (failed, held):
        effect.begin(lease_ms=60_000)
    token = done.begin()["token"]
    assert done.ask("commit", token=token, result={"n": 1}).status == 204
    assert failed.ask("fail", token=1, error="declined").status == 204
    before = held.status().json
    mortal.kill()
    mortal.start()
    assert done.begin() == {"outcome": "already_committed", "result": {"n": 1}}
    assert done.ask("commit", token=token, result="again").status == 204
    assert failed.status().json == {"status": "FAILED", "last_error": "declined"}
    assert held.status().json == before
    assert held.ask("extend", token=2, lease_ms=60_000).status == 204
    assert failed.begin()["token"] > token
