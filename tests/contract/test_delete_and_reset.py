"""Deleting topics and groups, and resetting groups."""

import pytest

from tests.contract.serving import Server


@pytest.mark.clause("T7")
def test_a_deleted_topic_is_gone_its_streams_end_and_its_name_is_free(server: Server) -> None:
    topic = server.new_topic(2)
    server.produce(topic, "v")
    with server.consume(topic) as stream:
        assert stream.next()["value"] == "v"
        assert server.delete(f"/v1/topics/{topic}").json == {"status": "deleted"}
        assert stream.rest() == b""
        server.get(f"/v1/topics/{topic}").refused(404, "NOT_FOUND")
        server.delete(f"/v1/topics/{topic}").refused(404, "NOT_FOUND")
        assert topic not in server.get("/v1/topics").json["topics"]
        assert server.post("/v1/topics", {"name": topic, "partitions": 3}).status == 201
        assert server.get(f"/v1/topics/{topic}").json["groups"] == []
        assert server.produce(topic, "new")["offset"] == 1


@pytest.mark.clause("T7", "I5")
def test_the_keys_of_a_deleted_topic_go_with_it(server: Server) -> None:
    topic = server.new_topic()
    assert server.produce(topic, "v", idempotency_key="k")["duplicate"] is False
    server.delete(f"/v1/topics/{topic}")
    server.post("/v1/topics", {"name": topic})
    assert server.produce(topic, "v", idempotency_key="k")["duplicate"] is False


@pytest.mark.clause("G6")
@pytest.mark.parametrize(
    ("to", "values"), [("earliest", ["a", "b", "c"]), (1, ["b", "c"]), ("2", ["c"]), (7, [])]
)
def test_a_group_goes_on_from_where_it_is_reset_to(server: Server, to: object, values: list[str]) -> None:
    topic = server.new_topic()
    with server.consume(topic) as stream:
        for value in ("a", "b", "c"):
            server.produce(topic, value)
            delivery = stream.next()
            server.settle("ack", topic, delivery)
        assert server.post(f"/v1/topics/{topic}/groups/g/reset", {"to": to}).json == {"status": "reset"}
        server.produce(topic, "new")
        got = [stream.next() for _ in range(len(values) + 1)]
        assert [delivery["value"] for delivery in got] == [*values, "new"]
        assert {delivery["attempts"] for delivery in got} == {2}  # Numbered above those of before.


@pytest.mark.clause("G6")
def test_a_group_is_reset_to_the_end_or_to_a_time(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "old")
    with server.consume(topic) as stream:
        assert stream.next()["value"] == "old"
        server.post(f"/v1/topics/{topic}/groups/g/reset", {"to": "latest"})
        assert server.get(f"/v1/topics/{topic}").json["groups"][0]["lag"] == 0
        server.post(f"/v1/topics/{topic}/groups/g/reset", {"to": "2001-01-01T00:00:00Z"})
        assert stream.next()["value"] == "old"
        server.post(f"/v1/topics/{topic}/groups/g/reset", {"to": "2100-01-01T00:00:00Z"})
        assert server.get(f"/v1/topics/{topic}").json["groups"][0]["lag"] == 0


@pytest.mark.clause("G6", "E3")
@pytest.mark.parametrize("body", [{"to": "yesterday"}, {"to": -1}, {}, {"to": 1, "at": 2}])
def test_a_reset_that_cannot_be_meant_is_refused(server: Server, body: object) -> None:
    topic = server.new_topic()
    with server.consume(topic):
        server.post(f"/v1/topics/{topic}/groups/g/reset", body).refused(400, "INVALID_ARGUMENT")
    server.post(f"/v1/topics/{topic}/groups/nobody/reset", {"to": 0}).refused(404, "NOT_FOUND")


@pytest.mark.clause("G6", "P4")
def test_a_deleted_group_holds_nobody_back_and_may_come_again(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v")
    with server.consume(topic, "g/1") as stream:
        server.settle("ack", topic, stream.next(), group="g/1")
        assert server.delete(f"/v1/topics/{topic}/groups/g%2F1").status == 200
        assert stream.rest() == b""
        assert server.get(f"/v1/topics/{topic}").json["groups"] == []
        server.delete(f"/v1/topics/{topic}/groups/g%2F1").refused(404, "NOT_FOUND")
        with server.consume(topic, "g/1") as again:
            assert again.next()["value"] == "v"


@pytest.mark.clause("H2")
def test_other_methods_are_told_which_there_are(server: Server) -> None:
    topic = server.new_topic()
    answer = server.post(f"/v1/topics/{topic}/groups/g", {})
    answer.refused(405, "METHOD_NOT_ALLOWED")
    assert answer.headers["Allow"] == "DELETE"
