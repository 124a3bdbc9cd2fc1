"""Consume: who gets what, in which order, and for how long."""

import time

import pytest

from tests.contract.serving import Server


@pytest.mark.clause("H3", "H1")
def test_headers_come_at_once_and_lines_as_they_are_produced(server: Server) -> None:
    topic = server.new_topic()
    with server.consume(topic) as stream:
        assert stream.status == 200
        assert stream.headers["Content-Type"] == "application/x-ndjson; charset=utf-8"
        for number in range(3):
            server.produce(topic, str(number))
            assert stream.next()["value"] == str(number)


@pytest.mark.clause("H3")
def test_parameters_may_be_a_body(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v")
    body = b'{"topic":"%b","group":"g","owner":"o","lease_ms":null}' % topic.encode()
    request = b"GET /v1/consume HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )
    with server.open() as client:
        client.sendall(request)
        received = b""
        while b'"value":"v"' not in received:
            received += client.recv(4096)
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.clause("H1", "G5")
@pytest.mark.parametrize(
    "wrong",
    [
        {"topic": ""},
        {"group": ""},
        {"owner": ""},
        {"owner": "x" * 256},
        {"group": "tab\there"},
        {"lease_ms": 0},
        {"lease_ms": 43_200_001},
        {"lease_ms": "1.5"},
        {"prefetch": 0},
        {"start": "middle"},
        {"release_on_close": "yes"},
    ],
)
def test_what_cannot_be_consumed_is_refused(server: Server, wrong: dict[str, object]) -> None:
    topic = server.new_topic()
    query: dict[str, object] = {"topic": topic, "group": "g", "owner": "o"}
    server.get("/v1/consume", **query | wrong).refused(400, "INVALID_ARGUMENT")
    server.get("/v1/consume", **query | {"topic": "nowhere"}).refused(404, "NOT_FOUND")
    assert server.get(f"/v1/topics/{topic}").json["groups"] == []


@pytest.mark.clause("G1")
def test_a_delivery_goes_to_one_consumer_and_they_take_turns(server: Server) -> None:
    topic = server.new_topic()
    with server.consume(topic, owner="a") as one, server.consume(topic, owner="b") as two:
        for number in range(6):
            server.produce(topic, str(number))
        first, second = one.take(3), two.take(3)
        assert one.is_quiet(50)
        assert two.is_quiet(50)
    taken = [{line["offset"] for line in lines} for lines in (first, second)]
    assert taken in ([{0, 2, 4}, {1, 3, 5}], [{1, 3, 5}, {0, 2, 4}])


@pytest.mark.clause("G2", "T5")
def test_in_flight_is_limited_and_an_ack_makes_room(small_server: Server) -> None:
    topic = small_server.new_topic(2)
    for partition in (0, 0, 1, 1):
        small_server.produce(topic, "v", partition_override=partition)
    with small_server.consume(topic, lease_ms=60_000) as stream:
        lines = stream.take(4)
        small_server.settle("ack", topic, next(line for line in lines if line["partition"] == 0))
        small_server.produce(topic, "w", partition_override=0)
        line = stream.next()
        assert (line["value"], line["partition"]) == ("w", 0)
        small_server.settle("ack", topic, line)
        small_server.produce(topic, "x", partition_override=0)
        assert stream.next()["value"] == "x"
        assert stream.is_quiet(50)


@pytest.mark.clause("G3")
def test_groups_do_not_know_each_other(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v")
    with server.consume(topic, group="one") as one:
        line = one.next()
        assert server.settle("ack", topic, line, group="one").status == 204
        with server.consume(topic, group="two") as two:
            assert two.next()["offset"] == line["offset"]
            assert server.settle("ack", topic, line, group="two").status == 204


@pytest.mark.clause("G4", "G6")
def test_a_new_group_starts_at_the_oldest_message_or_at_the_end(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "old")
    with server.consume(topic, group="late", start="latest") as late:
        with server.consume(topic, group="early", start="earliest") as early:
            assert early.next()["value"] == "old"
        server.produce(topic, "new")
        assert late.next()["value"] == "new"


@pytest.mark.clause("G5", "A6", "D1")
def test_a_lease_outlives_its_stream_and_then_ends(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v")
    asking = time.monotonic()
    with server.consume(topic, owner="a", lease_ms=300) as stream:
        assert stream.next()["attempts"] == 1
    with server.consume(topic, owner="b", lease_ms=60_000) as stream:
        line = stream.next()
        waited_ms = (time.monotonic() - asking) * 1000
    assert line["attempts"] >= 2
    assert line["last_error"] == "ack_timeout"
    assert waited_ms > 299


@pytest.mark.clause("G5")
def test_release_on_close_gives_messages_back_at_once(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v")
    with server.consume(topic, owner="a", lease_ms=60_000, release_on_close="true") as stream:
        assert stream.next()["attempts"] == 1
    with server.consume(topic, owner="b") as stream:
        line = stream.next()
    assert (line["attempts"], line["last_error"]) == (2, "")


@pytest.mark.clause("G6")
def test_prefetch_bounds_what_one_consumer_holds(server: Server) -> None:
    topic = server.new_topic()
    for number in range(4):
        server.produce(topic, str(number))
    with server.consume(topic, owner="a", prefetch=2, lease_ms=60_000) as one:
        first, _ = one.take(2)
        assert one.is_quiet(50)
        with server.consume(topic, owner="b", lease_ms=60_000) as two:
            assert [line["value"] for line in two.take(2)] == ["2", "3"]
        server.produce(topic, "4")
        assert server.settle("ack", topic, first, owner="a").status == 204
        assert one.next()["value"] == "4"


@pytest.mark.clause("H4", "G1")
def test_a_client_that_does_not_read_slows_only_itself(server: Server) -> None:
    topic = server.new_topic()
    with server.consume(topic, owner="stuck", prefetch=100_000, lease_ms=60_000) as stuck:
        stuck.socket.setblocking(False)
        messages = [{"topic": topic, "value": "x" * 50_000}] * 100
        for _ in range(3):
            assert server.post("/v1/produce/batch", {"messages": messages}).status == 200
        with server.consume(topic, owner="quick", prefetch=100_000, lease_ms=60_000) as quick:
            taken = 0
            for _ in range(100):
                line = quick.next()
                assert server.settle("ack", topic, line, owner="quick").status == 204
                taken += 1
        assert taken == 100
        held = server.get(f"/v1/topics/{topic}").json["groups"][0]["in_flight"]
    assert held < 300


@pytest.mark.clause("T5")
def test_first_deliveries_come_in_the_order_of_offsets(server: Server) -> None:
    topic = server.new_topic()
    server.post("/v1/produce/batch", {"messages": [{"topic": topic, "value": "v"}] * 500})
    with server.consume(topic, prefetch=7) as stream:
        for offset in range(100):
            line = stream.next()
            assert line["offset"] == offset
            server.settle("ack", topic, line)
