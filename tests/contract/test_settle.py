"""Ack, nack and lease extension: only the holder of the current delivery decides."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.serving import Server, Stream

VERBS = ("ack", "nack", "lease/extend")


class Leased:
    """A topic with one message that owner `o` of group `g` holds."""

    def __init__(self, server: Server, topic: str, stream: Stream) -> None:
        self.server = server
        self.topic = topic
        self.stream = stream
        self.line = stream.next()

    def settle(self, verb: str, **fields: Any) -> Any:
        extra = {"lease_ms": 60_000} if verb == "lease/extend" else {}
        return self.server.settle(verb, self.topic, self.line, **extra | fields)


@pytest.fixture
def leased(server: Server) -> Iterator[Leased]:
    topic = server.new_topic()
    server.produce(topic, "v")
    with server.consume(topic, lease_ms=30_000) as stream:
        yield Leased(server, topic, stream)


def in_flight(leased: Leased) -> int:
    return int(leased.server.get(f"/v1/topics/{leased.topic}").json["groups"][0]["in_flight"])


@pytest.mark.clause("A1")
@pytest.mark.parametrize("verb", VERBS)
def test_only_the_owner_settles(leased: Leased, verb: str) -> None:
    assert leased.settle(verb, owner="other").refused(409, "FAILED_PRECONDITION")["message"] == "not owner"
    error = leased.settle(verb, offset=99).refused(409, "FAILED_PRECONDITION")
    assert error["message"] == "no current delivery"
    error = leased.settle(verb, group="stranger").refused(409, "FAILED_PRECONDITION")
    assert error["message"] == "no current delivery"
    leased.settle(verb, topic="nowhere").refused(404, "NOT_FOUND")
    leased.settle(verb, partition=1).refused(400, "INVALID_ARGUMENT")
    leased.settle(verb, partition=-1).refused(400, "INVALID_ARGUMENT")
    leased.settle(verb, offset=-1).refused(400, "INVALID_ARGUMENT")
    leased.settle(verb, owner="").refused(400, "INVALID_ARGUMENT")
    leased.settle(verb, owner=None).refused(400, "INVALID_ARGUMENT")
    leased.settle(verb, group="a\x00").refused(400, "INVALID_ARGUMENT")
    assert in_flight(leased) == 1


@pytest.mark.clause("A1", "A2")
def test_after_an_ack_another_ack_is_fine_and_nothing_else(leased: Leased) -> None:
    answer = leased.settle("ack")
    assert (answer.status, answer.content) == (204, b"")
    assert leased.settle("ack").status == 204
    assert leased.settle("ack", owner="other").status == 204
    leased.settle("nack").refused(409, "FAILED_PRECONDITION")
    leased.settle("lease/extend").refused(409, "FAILED_PRECONDITION")


@pytest.mark.clause("A2", "A4")
def test_a_repeated_ack_writes_nothing(leased: Leased) -> None:
    def commits() -> str:
        text = leased.server.get("/v1/metrics").content.decode()
        return next(line for line in text.splitlines() if line.startswith("driftq_commits_total"))

    before = commits()
    assert leased.settle("ack").status == 204
    after = commits()
    assert leased.settle("ack").status == 204
    assert before != after == commits()


@pytest.mark.clause("A3")
def test_acks_may_come_in_any_order(server: Server) -> None:
    topic = server.new_topic()
    for _ in range(3):
        server.produce(topic, "v")
    with server.consume(topic, lease_ms=60_000, release_on_close="true") as stream:
        lines = stream.take(3)
        assert server.settle("ack", topic, lines[2]).status == 204
        group = server.get(f"/v1/topics/{topic}").json["groups"][0]
        assert (group["acked"], group["floor"], group["lag"]) == (2, 0, 2)
    with server.consume(topic, lease_ms=60_000) as stream:
        assert [line["offset"] for line in stream.take(2)] == [0, 1]


@pytest.mark.clause("A5", "D1", "D2")
def test_a_nacked_message_comes_again_later_each_time(leased: Leased) -> None:
    for attempt in (1, 2):
        nacking = time.monotonic()
        assert leased.settle("nack", reason=f"failure {attempt}", retryable=True).status == 204
        again = leased.stream.next()
        waited_ms = (time.monotonic() - nacking) * 1000
        assert (again["attempts"], again["last_error"]) == (attempt + 1, f"failure {attempt}")
        assert waited_ms > 100 * 2 ** (attempt - 1) - 1


@pytest.mark.clause("A1", "A5")
def test_a_message_that_waits_for_its_retry_is_nobodys(leased: Leased) -> None:
    assert leased.settle("nack").status == 204
    for verb in VERBS:
        error = leased.settle(verb).refused(409, "FAILED_PRECONDITION")
        assert error["message"] == "no current delivery"


@pytest.mark.clause("A6")
def test_a_reason_is_not_overwritten_by_a_timeout(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v")
    with server.consume(topic, lease_ms=60_000) as stream:
        assert server.settle("nack", topic, stream.next(), reason="mine").status == 204
    with server.consume(topic, lease_ms=200) as stream:
        assert stream.next()["last_error"] == "mine"
        third = stream.next()
        assert (third["attempts"], third["last_error"]) == (3, "mine")


@pytest.mark.clause("A7")
@pytest.mark.parametrize("verb", VERBS)
def test_another_attempt_is_fenced_off(leased: Leased, verb: str) -> None:
    for attempt in (0, 2, -5, 2**63 - 1):
        error = leased.settle(verb, attempt=attempt).refused(409, "FAILED_PRECONDITION")
        assert error["message"] == "stale attempt"
    assert in_flight(leased) == 1
    assert leased.settle(verb, attempt=1).status == 204


@pytest.mark.clause("A8")
def test_an_extended_lease_lasts_from_now(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v")
    with server.consume(topic, lease_ms=60_000) as stream:
        line = stream.next()
        extending = time.monotonic()
        assert server.settle("lease/extend", topic, line, lease_ms=1_500).status == 204
        again = stream.next()
        assert again["attempts"] == 2
        assert (time.monotonic() - extending) * 1000 > 1_499
        for lease_ms in (0, 43_200_001, None, "1"):
            server.settle("lease/extend", topic, again, lease_ms=lease_ms).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("H1")
def test_a_query_settles_too(leased: Leased) -> None:
    place = {"topic": leased.topic, "group": "g", "owner": "o", "partition": 0, "offset": 0}
    extended = leased.server.post("/v1/lease/extend", **place, lease_ms=30_000, attempt=1)
    assert extended.status == 204
    assert leased.server.post("/v1/nack", **place, reason="by query", retryable="true").status == 204
    assert leased.stream.next()["last_error"] == "by query"
    assert leased.server.post("/v1/ack", **place, attempt=2).status == 204


@pytest.mark.clause("H1", "E3")
@pytest.mark.parametrize(
    "wrong", [{"retryable": "no"}, {"reason": 5}, {"reson": "x"}, {"reason": "x" * 65_537}]
)
def test_a_nack_is_checked(leased: Leased, wrong: dict[str, object]) -> None:
    leased.settle("nack", **wrong).refused(400, "INVALID_ARGUMENT")
    assert leased.settle("nack", reason=None, attempt=None, retryable=None).status == 204
