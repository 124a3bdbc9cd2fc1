"""How a bulk request is repeated while a server stays overloaded, in time that the test makes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from driftq.errors import InvalidArgument, ReadModelUnavailable
from driftq.sinks.opensearch.address import parse_url
from driftq.sinks.opensearch.bulk import Bulk
from driftq.sinks.opensearch.connection import SearchConnection
from tests.services.opensearch.answering import answering

ITEMS = [b'{"index":{}}\n{}\n'] * 100


class Slept:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def now(self) -> float:
        return sum(self.pauses)


def send_to(server: str, *, retry_s: float) -> Slept:
    """Send until it fails for good; how long it slept in between."""
    slept = Slept()
    address, _ = parse_url(f"http://{server}", prefix="")
    connection = SearchConnection(address, timeout_s=5, ca_file=None)
    bulk = Bulk(connection, "any", retry_s=retry_s, sleep=slept.sleep, now=slept.now)
    try:
        with pytest.raises(ReadModelUnavailable, match="429"):
            bulk.send(ITEMS)
    finally:
        connection.close()
    return slept


@pytest.mark.clause("V5", "V3", "V3c")
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, {"error": {"type": "rejected_execution_exception", "reason": "too much"}, "status": 429}),
        (200, {"errors": True, "items": [{"index": {"status": 429, "error": {"type": "rejected"}}}]}),
    ],
)
def test_pauses_grow_up_to_a_limit_and_end_as_an_outage(status: int, body: dict[str, object]) -> None:
    """The second one answers for one item of a hundred, which is as good as no answer until one is sent."""
    with answering(status, body) as server:
        slept = send_to(server, retry_s=60.0)
    pauses = slept.pauses
    assert 60 <= sum(pauses) <= 70
    assert pauses[0] <= 0.1
    assert all(later > earlier * 0.99 for earlier, later in pairwise(pauses[:6]))
    assert 2.5 <= max(pauses) <= 5.0


@pytest.mark.clause("V5")
@pytest.mark.parametrize("status", [401, 403])
def test_a_right_that_was_taken_away_ends_the_run_and_is_not_an_outage(status: int) -> None:
    with answering(status, {"error": {"type": "security_exception", "reason": "no"}}) as server:
        address, _ = parse_url(f"http://{server}", prefix="")
        connection = SearchConnection(address, timeout_s=5, ca_file=None)
        with pytest.raises(InvalidArgument):
            Bulk(connection, "any", retry_s=60.0).send(ITEMS)
        connection.close()
