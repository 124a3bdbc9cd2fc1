"""Dead letters of a topic that was deleted and created again, with other partitions or without its group."""

from typing import Any

import pytest

from tests.contract.serving import Server

NOTHING_SKIPPED: list[dict[str, Any]] = []


def recreate(server: Server, topic: str, *, partitions: int) -> None:
    assert server.delete(f"/v1/topics/{topic}").status == 200
    assert server.post("/v1/topics", {"name": topic, "partitions": partitions}).status == 201


def give_up_one_in_each(
    server: Server, topic: str, partitions: int, *, group: str = "g", key: str = "k"
) -> None:
    """One message for each partition, all of them nacked for good by a group."""
    for number in range(partitions):
        server.produce(topic, f"{group} {number} of {partitions}", key=key, partition_override=number)
    with server.consume(topic, group=group, lease_ms=30_000) as stream:
        for line in stream.take(partitions):
            nack = server.settle("nack", topic, line, group=group, reason="bad", retryable=False)
            assert nack.status == 204


def letters(server: Server, topic: str) -> list[dict[str, Any]]:
    return list(server.get(f"/v1/dlq/{topic}").json["messages"])


def redrive(server: Server, topic: str, **asked: Any) -> dict[str, Any]:
    answer = server.post(f"/v1/dlq/{topic}/redrive", asked)
    assert answer.status == 200, answer
    return dict(answer.json)


@pytest.mark.clause("D4")
def test_every_message_has_its_letter_when_the_topic_grew_since_the_first_one(server: Server) -> None:
    topic = server.new_topic(partitions=2)
    give_up_one_in_each(server, topic, 2)
    recreate(server, topic, partitions=7)
    give_up_one_in_each(server, topic, 7)

    found = letters(server, topic)
    assert sorted(one["value"] for one in found) == sorted(
        [f"g {number} of 2" for number in range(2)] + [f"g {number} of 7" for number in range(7)]
    )
    for letter in found:
        assert letter["partition"] == letter["envelope"]["dlq"]["original_partition"] % 2
    groups = server.get(f"/v1/topics/{topic}").json["groups"]
    assert {one["lag"] for one in groups} == {0}


@pytest.mark.clause("D4", "P3", "D3")
def test_lapsed_leases_and_deadlines_of_a_topic_that_grew_leave_letters_too(server: Server) -> None:
    topic = server.new_topic(partitions=1)
    give_up_one_in_each(server, topic, 1)
    recreate(server, topic, partitions=4)
    with server.consume(topic, lease_ms=100) as stream:
        server.produce(topic, "lapsed", partition_override=2, retry_policy={"max_attempts": 1})
        assert stream.next()["value"] == "lapsed"
        with server.consume(f"dlq.{topic}", group="undertaker", lease_ms=30_000) as burials:
            found = {one["value"]: one["envelope"]["dlq"] for one in burials.take(2)}
    assert found["lapsed"]["reason"] == "max_attempts"
    assert found["lapsed"]["original_partition"] == 2


@pytest.mark.clause("D6")
def test_a_redrive_counts_and_marks_only_what_it_stored(server: Server) -> None:
    topic = server.new_topic(partitions=4)
    give_up_one_in_each(server, topic, 4, key="user:1")
    recreate(server, topic, partitions=1)
    with server.consume(topic, lease_ms=30_000) as stream:
        answer = redrive(server, topic)
        assert answer == {"matched": 4, "redriven": 4, "skipped": NOTHING_SKIPPED}
        again = stream.take(4)
    assert sorted(one["value"] for one in again) == [f"g {number} of 4" for number in range(4)]
    assert {one["partition"] for one in again} == {0}
    assert all("redriven_at" in letter for letter in letters(server, topic))
    assert redrive(server, topic) == {"matched": 0, "redriven": 0, "skipped": NOTHING_SKIPPED}


@pytest.mark.clause("D6")
def test_a_partition_that_is_gone_falls_back_to_the_keys_and_others_stay(server: Server) -> None:
    topic = server.new_topic(partitions=8)
    give_up_one_in_each(server, topic, 8, key="user:1")
    recreate(server, topic, partitions=3)
    of_the_key = server.produce(topic, "ordinary", key="user:1")["partition"]
    with server.consume(topic, lease_ms=30_000) as stream:
        assert stream.next()["value"] == "ordinary"
        assert redrive(server, topic)["redriven"] == 8
        places = {int(one["value"].split()[1]): one["partition"] for one in stream.take(8)}
    assert places == {number: number if number < 3 else of_the_key for number in range(8)}


@pytest.mark.clause("D6")
def test_a_letter_whose_group_was_deleted_reaches_nobody_and_is_reported(server: Server) -> None:
    topic = server.new_topic()
    with server.consume(topic, group="others", lease_ms=30_000) as others:
        give_up_one_in_each(server, topic, 1, group="gone")
        give_up_one_in_each(server, topic, 1, group="stays")
        others.take(2)
        with server.consume(topic, group="gone", lease_ms=30_000) as late:
            nack = server.settle("nack", topic, late.next(), group="gone", reason="bad", retryable=False)
            assert nack.status == 204
        assert server.delete(f"/v1/topics/{topic}/groups/gone").status == 200
        of_gone = [
            one["offset"] for one in letters(server, topic) if one["envelope"]["dlq"]["group"] == "gone"
        ]

        skipped = [{"offset": offset, "reason": "group_deleted", "group": "gone"} for offset in of_gone]
        assert redrive(server, topic, dry_run=True) == {"matched": 3, "redriven": 0, "skipped": skipped}
        assert redrive(server, topic) == {"matched": 3, "redriven": 1, "skipped": skipped}
        assert others.is_quiet(300)

        refused = server.post(f"/v1/dlq/{topic}/redrive", {}).refused(409, "FAILED_PRECONDITION")
        assert (refused["reason"], refused["group"]) == ("group_deleted", "gone")
        assert "gone" in refused["message"]
        assert [one for one in letters(server, topic) if "redriven_at" not in one] != []

        assert redrive(server, topic, all_groups=True)["redriven"] == 2
        assert [one["value"] for one in others.take(2)] == ["gone 0 of 1", "stays 0 of 1"]


@pytest.mark.clause("D6")
def test_a_group_is_known_by_its_name_so_its_successor_gets_the_redriven_letters(server: Server) -> None:
    topic = server.new_topic()
    give_up_one_in_each(server, topic, 1)
    assert server.delete(f"/v1/topics/{topic}/groups/g").status == 200
    server.post(f"/v1/dlq/{topic}/redrive", {}).refused(409, "FAILED_PRECONDITION")
    with server.consume(topic, lease_ms=30_000, start="latest") as stream:
        assert redrive(server, topic)["redriven"] == 1
        assert stream.next()["value"] == "g 0 of 1"


@pytest.mark.clause("D6")
def test_only_the_first_hundred_skipped_letters_are_listed(server: Server) -> None:
    topic = server.new_topic()
    give_up_one_in_each(server, topic, 1, group="stays")
    for number in range(120):
        server.produce(topic, f"v{number}")
    with server.consume(topic, group="gone", lease_ms=30_000) as stream:
        for _ in range(121):
            nack = server.settle("nack", topic, stream.next(), group="gone", retryable=False)
            assert nack.status == 204
    assert server.delete(f"/v1/topics/{topic}/groups/gone").status == 200
    answer = redrive(server, topic)
    assert (answer["matched"], answer["redriven"], len(answer["skipped"])) == (122, 1, 100)
