"""The event log, waited for and followed by groups: woken by an append, fenced, never behind its position."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import driftq
from tests.contract.serving import PATIENCE_S, Answer, Server
from tests.support.waiting import wait_until

LONG_MS = 50_000
"""Much longer than any of these tests may take: what comes sooner was woken."""


def fact(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "event_id": f"e-{number}",
        "aggregate_type": "order",
        "aggregate_id": f"o-{number}",
        "event_type": "order.opened",
        "kind": "fact",
        "operation": "append",
        "payload": {"n": number},
    } | fields


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server with an event log of its own."""
    with Server(tmp_path / "log") as running:
        yield running


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def append(server: Server, *events: dict[str, Any]) -> None:
    assert server.post("/v1/events", list(events)).status == 201


@contextmanager
def on_own_connection(server: Server) -> Iterator[Server]:
    """Calls to the same server beside those of the test."""
    other = Server(None)
    other.port = server.port
    try:
        yield other
    finally:
        other.hang_up()


def waiting_read(pool: ThreadPoolExecutor, server: Server, **query: Any) -> Future[Answer]:
    asked = threading.Event()

    def read() -> Answer:
        with on_own_connection(server) as other:
            asked.set()
            return other.get("/v1/events/log", wait_ms=LONG_MS, **query)

    future = pool.submit(read)
    assert asked.wait(PATIENCE_S)
    return future


def opened(server: Server, group: str, **body: Any) -> dict[str, Any]:
    answer = server.post(f"/v1/events/groups/{group}", body)
    assert answer.status == 200, answer
    return dict(answer.json)


def read_on(server: Server, group: str, token: int, **body: Any) -> Answer:
    return server.post(f"/v1/events/groups/{group}/read", {"token": token} | body)


@pytest.mark.clause("S11")
def test_a_read_that_waits_is_woken_by_the_append(own: Server, elsewhere: ThreadPoolExecutor) -> None:
    append(own, fact(1))
    waits = waiting_read(elsewhere, own, **{"from": 2})
    append(own, fact(2))
    answer = waits.result(LONG_MS / 2000)
    assert [line["event_id"] for line in answer.lines] == ["e-2"]
    assert answer.headers["DriftQ-Next-Position"] == "3"


@pytest.mark.clause("S11")
def test_a_read_that_waits_in_vain_ends_with_nothing(own: Server) -> None:
    answer = own.get("/v1/events/log", wait_ms=20, **{"from": 1})
    assert (answer.status, answer.content) == (200, b"")
    assert answer.headers["DriftQ-Next-Position"] == "1"


@pytest.mark.clause("S11")
def test_a_filter_takes_what_it_names_and_the_next_position_is_behind_the_rest(own: Server) -> None:
    append(
        own,
        fact(1),
        fact(2, event_type="order.paid"),
        fact(3, aggregate_type="invoice", event_type="order.paid"),
        fact(4),
    )
    paid = own.get("/v1/events/log", event_type="order.paid")
    assert [line["position"] for line in paid.lines] == [2, 3]
    assert paid.headers["DriftQ-Next-Position"] == "5"
    both = own.get("/v1/events/log", event_type="order.paid", aggregate_type="order")
    assert [line["position"] for line in both.lines] == [2]
    full = own.get("/v1/events/log", event_type="order.paid", limit=1)
    assert ([line["position"] for line in full.lines], full.headers["DriftQ-Next-Position"]) == ([2], "3")
    stored = own.get("/v1/events/log", aggregate_type="invoice", stored="true")
    assert [line["content_hash"] != "" for line in stored.lines] == [True]


@pytest.mark.clause("S11")
def test_events_that_are_not_wanted_wake_nobody(own: Server, elsewhere: ThreadPoolExecutor) -> None:
    waits = waiting_read(elsewhere, own, event_type="order.paid")
    append(own, fact(1))
    append(own, fact(2, event_type="order.paid"))
    answer = waits.result(LONG_MS / 2000)
    assert [line["position"] for line in answer.lines] == [2]


@pytest.mark.clause("S11")
def test_a_group_goes_on_from_its_position_through_kills(own: Server) -> None:
    append(own, *(fact(number) for number in range(1, 6)))
    first = opened(own, "mail")
    assert first["position"] == 0
    page = read_on(own, "mail", first["token"], limit=3).json
    assert ([event["position"] for event in page["events"]], page["next_position"]) == ([1, 2, 3], 4)
    moved = own.post("/v1/events/groups/mail/position", {"token": first["token"], "position": 2})
    assert moved.status == 204
    own.kill()
    own.start()
    again = opened(own, "mail")
    assert again["position"] == 2
    rest = read_on(own, "mail", again["token"], position=3).json
    assert [event["position"] for event in rest["events"]] == [4, 5]
    [listed] = own.get("/v1/events/groups").json["groups"]
    assert (listed["group"], listed["position"], listed["lag"]) == ("mail", 3, 2)


@pytest.mark.clause("S11")
def test_an_older_follower_moves_nothing_and_learns_it_while_it_waits(
    own: Server, elsewhere: ThreadPoolExecutor
) -> None:
    append(own, fact(1))
    older = opened(own, "mail")["token"]

    def read() -> Answer:
        with on_own_connection(own) as other:
            return read_on(other, "mail", older, position=1, wait_ms=LONG_MS)

    waits = elsewhere.submit(read)
    wait_until(
        "its position is stored", lambda: own.get("/v1/events/groups").json["groups"][0]["position"] == 1
    )
    newer = opened(own, "mail")
    assert newer["position"] == 1
    refused = waits.result(LONG_MS / 2000).refused(409, "FAILED_PRECONDITION")
    assert refused["reason"] == "follower_replaced"
    append(own, fact(2))
    body = {"token": older, "position": 2}
    own.post("/v1/events/groups/mail/position", body).refused(409, "FAILED_PRECONDITION")
    read_on(own, "mail", older, position=2).refused(409, "FAILED_PRECONDITION")
    assert opened(own, "mail")["position"] == 1


@pytest.mark.clause("S11")
def test_positions_never_go_back_and_never_beyond_the_log(own: Server) -> None:
    append(own, fact(1), fact(2))
    token = opened(own, "mail")["token"]
    for position in (2, 1):
        moved = own.post("/v1/events/groups/mail/position", {"token": token, "position": position})
        assert moved.status == 204
    beyond = own.post("/v1/events/groups/mail/position", {"token": token, "position": 3})
    assert "position" in beyond.refused(400, "INVALID_ARGUMENT")["message"]
    assert opened(own, "mail")["position"] == 2


@pytest.mark.clause("S11")
def test_a_new_group_may_begin_with_the_next_event(own: Server) -> None:
    append(own, fact(1))
    opened_late = opened(own, "late", start="latest")
    append(own, fact(2))
    page = read_on(own, "late", opened_late["token"]).json
    assert [event["position"] for event in page["events"]] == [2]


@pytest.mark.clause("S11")
def test_a_deleted_group_is_unknown_and_begins_again(own: Server) -> None:
    append(own, fact(1))
    token = opened(own, "gone")["token"]
    assert own.delete("/v1/events/groups/gone").status == 204
    own.delete("/v1/events/groups/gone").refused(404, "NOT_FOUND")
    read_on(own, "gone", token).refused(404, "NOT_FOUND")
    assert opened(own, "gone")["position"] == 0


@pytest.mark.clause("S11")
def test_the_client_follows_and_goes_on_where_it_was(own: Server) -> None:
    append(own, *(fact(number, event_type=f"t{number % 2}") for number in range(1, 7)))
    url = f"http://127.0.0.1:{own.port}"
    with driftq.EventStore(url) as store:
        with store.follow(group="odd", event_type="t1") as follower:
            assert [next(follower).position, next(follower).position] == [1, 3]
        with store.follow(group="odd", event_type="t1") as follower:
            assert next(follower).position == 3, "the event handed out last was not handled"
            follower.commit()
            assert follower.position == 3
        with store.follow(group="odd", event_type="t1") as follower:
            assert next(follower).position == 5


@pytest.mark.clause("S11")
async def test_a_follower_on_a_loop_sees_what_is_appended_while_it_waits(own: Server) -> None:
    url = f"http://127.0.0.1:{own.port}"
    async with driftq.AsyncEventStore(url) as store:
        seen: list[int | None] = []
        async with store.follow(group="loop") as follower:
            for number in range(1, 4):
                event = driftq.Event(
                    event_id=f"e-{number}",
                    aggregate_type="order",
                    aggregate_id="o",
                    event_type="t",
                    kind="fact",
                    payload=number,
                )
                await store.append(event)
                seen.append((await anext(follower)).position)
        assert seen == [1, 2, 3]


@pytest.mark.clause("S11")
def test_the_second_follower_replaces_the_first(own: Server) -> None:
    append(own, fact(1), fact(2))
    with (
        driftq.EventStore(f"http://127.0.0.1:{own.port}") as store,
        store.follow(group="g") as first,
        store.follow(group="g") as second,
    ):
        assert next(first).position == 1
        assert next(second).position == 1
        with pytest.raises(driftq.errors.FollowerReplaced):
            first.commit()
        second.commit()
