"""The consumers' side of idempotency: who may begin, who may finish, and what a duplicate is told."""

from typing import Any

import pytest

from tests.contract.serving import Answer, Server


class Effect:
    """One effect of one group, asked about over HTTP."""

    def __init__(self, server: Server, topic: str, key: str, group: str = "g") -> None:
        self._server = server
        self._identity = {"topic": topic, "group": group, "idempotency_key": key}

    def begin(self, owner: str = "o", lease_ms: int = 30_000, **fields: Any) -> dict[str, Any]:
        body = self._identity | {"owner": owner, "lease_ms": lease_ms} | fields
        answer = self._server.post("/v1/idempotency/begin", body)
        assert answer.status == 200, answer
        return dict(answer.json)

    def finish(self, verb: str, token: int, owner: str = "o", **fields: Any) -> Answer:
        body = self._identity | {"owner": owner, "token": token} | fields
        return self._server.post(f"/v1/idempotency/{verb}", body)

    def status(self) -> Answer:
        return self._server.get("/v1/idempotency/status", **self._identity)


@pytest.mark.clause("I6", "I7")
def test_a_committed_effect_is_skipped_and_its_result_is_told(server: Server) -> None:
    topic = server.new_topic()
    effect = Effect(server, topic, "order-1")
    effect.status().refused(404, "NOT_FOUND")
    token = effect.begin()["token"]
    assert effect.status().json["status"] == "PENDING"
    held = effect.begin(owner="another")
    assert (held["outcome"], held["owner"]) == ("held", "o")
    assert effect.finish("commit", token, result={"charged": 7}).status == 204
    assert effect.begin(owner="another") == {"outcome": "already_committed", "result": {"charged": 7}}
    assert effect.status().json["status"] == "COMMITTED"
    assert effect.finish("commit", token, result={"charged": 7}).status == 204


@pytest.mark.clause("I6")
def test_each_group_and_each_tenant_has_effects_of_its_own(server: Server) -> None:
    topic = server.new_topic()
    effect = Effect(server, topic, "order-1")
    assert effect.finish("commit", effect.begin()["token"]).status == 204
    assert Effect(server, topic, "order-1", group="mail").begin()["outcome"] == "proceed"
    assert effect.begin(tenant_id="acme")["outcome"] == "proceed"


@pytest.mark.clause("I6", "I7")
def test_a_failed_effect_begins_again_and_keeps_its_error_until_then(server: Server) -> None:
    effect = Effect(server, server.new_topic(), "order-1")
    first = effect.begin()["token"]
    assert effect.finish("fail", first, error="card declined").status == 204
    failed = effect.status().json
    assert (failed["status"], failed["last_error"]) == ("FAILED", "card declined")
    again = effect.begin(owner="another")
    assert (again["outcome"], again["token"] > first) == ("proceed", True)
    assert effect.status().json["status"] == "PENDING"


@pytest.mark.clause("I6")
def test_whoever_lets_the_lease_lapse_can_no_longer_finish(server: Server) -> None:
    effect = Effect(server, server.new_topic(), "order-1")
    lapsed = effect.begin(owner="slow", lease_ms=1)["token"]
    taken = effect.begin(owner="quick")
    while taken["outcome"] == "held":
        taken = effect.begin(owner="quick")
    assert taken["token"] > lapsed
    refused = effect.finish("commit", lapsed, owner="slow").refused(409, "FAILED_PRECONDITION")
    assert refused["reason"] == "superseded"
    assert effect.finish("commit", taken["token"], owner="quick").status == 204


@pytest.mark.clause("I9", "D8")
def test_a_delivery_whose_effect_is_committed_is_settled_when_its_lease_ends(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v", idempotency_key=f"{topic}-1")
    with server.consume(topic, lease_ms=300) as stream:
        stream.next()
        effect = Effect(server, topic, f"{topic}-1")
        assert effect.finish("commit", effect.begin()["token"]).status == 204
        assert stream.is_quiet(700)
    [group] = server.get(f"/v1/topics/{topic}").json["groups"]
    assert (group["lag"], group["in_flight"]) == (0, 0)
    told = server.get(f"/v1/messages/{topic}/0").json
    assert [one["what"] for one in told["history"]] == ["stored", "delivered", "acked"]
