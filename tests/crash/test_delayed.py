"""Messages that wait for their instant, on a server that is killed meanwhile."""

from __future__ import annotations

import datetime as dt
import time

import pytest

from driftq.model.time import parse_rfc3339
from tests.harness import ServerProcess

MESSAGES = 400
KILLS = 2
SPREAD_MS = 2_400


@pytest.mark.clause("P9", "W3")
def test_messages_that_wait_survive_kills_and_come_once_each_and_never_early(server: ServerProcess) -> None:
    begin = dt.datetime.now(dt.UTC)
    instants = {
        f"m-{number}": (begin + dt.timedelta(milliseconds=number * SPREAD_MS // MESSAGES)).isoformat()
        for number in range(MESSAGES)
    }
    messages = [
        {"topic": "orders", "value": value, "envelope": {"deliver_at": at}} for value, at in instants.items()
    ]
    answer = server.client().post("/v1/produce/batch", {"messages": messages[::-1]})
    assert (answer.status, answer.body["failed"]) == (200, 0), answer
    got: dict[str, int] = {}
    for life in range(KILLS + 1):
        stream = server.stream("orders", "billing", "worker", lease_ms=1_500, prefetch=20, timeout_s=60.0)
        wanted = MESSAGES * (life + 1) // (KILLS + 1)
        while len(got) < wanted:
            [delivery] = stream.take(1)
            at = time.time() * 1_000
            value = delivery["value"]
            assert at >= parse_rfc3339(instants[value]), f"{value} came early"
            assert delivery["envelope"]["deliver_at"] == instants[value]
            got[value] = got.get(value, 0) + 1
            place = {name: delivery[name] for name in ("partition", "offset")}
            ack = {"topic": "orders", "group": "billing", "owner": "worker", **place}
            assert server.client().post("/v1/ack", ack).status == 204
        if life < KILLS:
            server.restart()
    assert got == dict.fromkeys(instants, 1), "all of them, and none that was acked comes again"
    [view] = server.client().get("/v1/topics/orders").body["groups"]
    assert (view["lag"], view["delayed"]) == (0, 0)
