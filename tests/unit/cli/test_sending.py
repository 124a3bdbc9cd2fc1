"""A produce is repeated only under a key, and only while that can help."""

from typing import Any

import pytest

from driftq.cli.sending import BATCH_BYTES, Sender, batches
from driftq.errors import InvalidArgument, ServerUnreachable
from driftq.transport.errors import rebuild

GONE = ServerUnreachable("http://h", cause="connection refused")
BUSY = rebuild({"error": "UNAVAILABLE", "message": "shutting down"})
FULL = rebuild({"error": "RESOURCE_EXHAUSTED", "message": "full", "retry_after_ms": 700})
WRONG = rebuild({"error": "INVALID_ARGUMENT", "message": "no"})
KEYED = {"topic": "t", "value": "v", "envelope": {"idempotency_key": "k"}}
BARE = {"topic": "t", "value": "v"}


class ScriptedConnection:
    """Answers in turn; an exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    def post(self, path: str, body: Any) -> Any:
        self.asked.append(body)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def sender(connection: ScriptedConnection, pauses: list[float], *, retries: int = 4) -> Sender:
    return Sender(connection, retries=retries, pause=pauses.append)  # type: ignore[arg-type]


@pytest.mark.clause("P7")
def test_a_keyed_message_is_sent_until_it_is_confirmed() -> None:
    connection, pauses = ScriptedConnection(GONE, BUSY, FULL, {"offset": 3}), list[float]()
    assert sender(connection, pauses).send(KEYED) == {"offset": 3}
    assert connection.asked == [KEYED] * 4
    assert pauses == [0.1, 0.2, 0.7]


@pytest.mark.clause("P7")
@pytest.mark.parametrize("failure", [GONE, BUSY, FULL])
def test_a_message_without_a_key_is_sent_once(failure: Exception) -> None:
    connection = ScriptedConnection(failure)
    with pytest.raises(type(failure)):
        sender(connection, []).send(BARE)
    with pytest.raises(type(failure)):
        sender(ScriptedConnection(failure), []).send_batch([KEYED, BARE])


def test_a_refusal_for_good_is_not_argued_with() -> None:
    with pytest.raises(InvalidArgument):
        sender(ScriptedConnection(WRONG), []).send(KEYED)


def test_patience_ends() -> None:
    connection, pauses = ScriptedConnection(GONE, GONE, GONE), list[float]()
    with pytest.raises(ServerUnreachable):
        sender(connection, pauses, retries=2).send(KEYED)
    assert len(pauses) == 2


def test_of_a_batch_only_what_failed_is_sent_again() -> None:
    first, second, third = ({**KEYED, "value": value} for value in "abc")
    full = {"error": "RESOURCE_EXHAUSTED", "message": "full"}
    wrong = {"error": "INVALID_ARGUMENT", "message": "no"}
    connection = ScriptedConnection(
        {"results": [{"offset": 0}, full, wrong]}, GONE, {"results": [{"offset": 1}]}
    )
    assert sender(connection, []).send_batch([first, second, third]) == [{"offset": 0}, {"offset": 1}, wrong]
    assert [len(body["messages"]) for body in connection.asked] == [3, 1, 1]


def test_a_batch_that_stays_refused_keeps_its_errors() -> None:
    full = {"error": "RESOURCE_EXHAUSTED", "message": "full"}
    connection, pauses = ScriptedConnection(*[{"results": [full]}] * 3), list[float]()
    assert sender(connection, pauses, retries=2).send_batch([KEYED]) == [full]
    assert len(pauses) == 2


def test_batches_are_bounded_by_number_and_size() -> None:
    assert [len(batch) for batch in batches(BARE for _ in range(1001))] == [500, 500, 1]
    large = {"topic": "t", "value": "x" * (BATCH_BYTES // 2 + 1)}
    assert [len(batch) for batch in batches([large, large, BARE])] == [1, 2]
    assert list(batches([])) == []
