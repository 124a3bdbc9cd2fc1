"""Topics: names, partitions, what can be seen of them."""

import pytest

from tests.contract.serving import Server


@pytest.mark.clause("T1", "H1")
def test_a_topic_has_one_partition_unless_it_says_otherwise(server: Server) -> None:
    answer = server.post("/v1/topics", {"name": "plain"})
    assert (answer.status, answer.json) == (201, {"status": "created", "name": "plain", "partitions": 1})
    asked = server.post("/v1/topics", name="by-query", partitions=3)
    assert (asked.status, asked.json) == (201, {"status": "created", "name": "by-query", "partitions": 3})
    assert {"plain", "by-query"} <= set(server.get("/v1/topics").json["topics"])


@pytest.mark.clause("T1")
@pytest.mark.parametrize("partitions", [0, -1, 4097, 2**63, "3", 1.5, True])
def test_any_other_number_of_partitions_is_refused(server: Server, partitions: object) -> None:
    server.post("/v1/topics", {"name": "n", "partitions": partitions}).refused(400, "INVALID_ARGUMENT")
    assert server.get("/v1/topics/n").status == 404


@pytest.mark.clause("T1")
@pytest.mark.parametrize("name", ["", ".", "..", "a b", "dlq.x", "x" * 246, "ä", "a/b", "a\n"])
def test_any_other_name_is_refused(server: Server, name: str) -> None:
    server.post("/v1/topics", {"name": name}).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("T1")
def test_the_largest_topic_and_the_longest_name(server: Server) -> None:
    name = "Aa0._-" + "x" * 239
    assert server.post("/v1/topics", {"name": name, "partitions": 4096}).status == 201
    assert len(server.get(f"/v1/topics/{name}").json["partitions"]) == 4096


@pytest.mark.clause("T2")
def test_creating_again_is_the_same_or_a_conflict(server: Server) -> None:
    topic = server.new_topic(2)
    assert server.post("/v1/topics", {"name": topic, "partitions": 2}).status == 201
    server.post("/v1/topics", {"name": topic, "partitions": 3}).refused(409, "ALREADY_EXISTS")
    assert len(server.get(f"/v1/topics/{topic}").json["partitions"]) == 2


@pytest.mark.clause("T3")
def test_a_key_decides_its_partition_and_an_override_wins(server: Server) -> None:
    topic = server.new_topic(3)
    places = [server.produce(topic, "v", key)["partition"] for key in ("user:1", "user:2", "user:3", "")]
    assert places == [1, 0, 2, 0]
    assert server.produce(topic, "v", "user:1", partition_override=2)["partition"] == 2
    body = {"topic": topic, "value": "v", "envelope": {"partition_override": 3}}
    server.post("/v1/produce", body).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("T4", "T6")
def test_a_topic_shows_its_partitions_and_groups(server: Server) -> None:
    topic = server.new_topic(2)
    offsets = [server.produce(topic, "abc", partition_override=number % 2)["offset"] for number in range(5)]
    assert offsets == [0, 1, 2, 3, 4]
    with server.consume(topic) as stream:
        lines = stream.take(5)
        assert server.settle("ack", topic, next(line for line in lines if line["offset"] == 2)).status == 204
    seen = server.get(f"/v1/topics/{topic}").json
    assert seen["name"] == topic
    assert seen["partitions"][0] == {
        "partition": 0,
        "first_offset": 0,
        "next_offset": 5,
        "messages": 3,
        "bytes": 9,
    }
    groups = {group["partition"]: group for group in seen["groups"]}
    assert (groups[0]["group"], groups[0]["acked"], groups[0]["lag"], groups[0]["in_flight"]) == (
        "g",
        2,
        2,
        2,
    )
    assert (groups[1]["acked"], groups[1]["lag"]) == (-1, 2)


@pytest.mark.clause("H1")
def test_the_list_of_topics_comes_in_pages(small_server: Server) -> None:
    for name in ("c", "a", "b"):
        assert small_server.post("/v1/topics", {"name": name}).status == 201
    assert small_server.get("/v1/topics", limit=2).json["topics"][:2] == ["a", "b"]
    assert small_server.get("/v1/topics", after="a", limit=1).json == {"topics": ["b"]}
    small_server.get("/v1/topics", limit=0).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("T1", "H1")
def test_retention_is_accepted_and_checked(server: Server) -> None:
    body = {"name": "kept", "retention_ms": 1000, "retention_bytes": 10, "table": True}
    assert server.post("/v1/topics", body).status == 201
    assert server.post("/v1/topics", {"name": "nulls", "partitions": None, "table": None}).status == 201
    server.post("/v1/topics", {"name": "k2", "retention_ms": 0}).refused(400, "INVALID_ARGUMENT")
