"""Where a bridge copies to, what a copy carries, and which rows it refuses, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from driftq.errors import InvalidArgument, OffsetOutOfOrder
from driftq.kafka.dead_letters import read_dead_letter
from driftq.model import Envelope
from driftq.model.envelope import MessageRetryPolicy
from driftq.pipeline.bridge.batches import LaneOrder
from driftq.pipeline.bridge.messages import StoredRow, bridge_letter, carried_envelope, to_driftq, to_kafka
from driftq.pipeline.bridge.route import BridgeEnd, parse_route
from driftq.publishing.kafka.positions import HOMES, home_of

pytestmark = pytest.mark.clause("Z10")

ROW = StoredRow("orders", 6, 41, 1_700_000_000_123, "k", "v", None)


def test_a_route_goes_from_one_system_to_the_other() -> None:
    route = parse_route("driftq:orders", "kafka:orders.v2")
    assert (route.source, route.target) == (BridgeEnd("driftq", "orders"), BridgeEnd("kafka", "orders.v2"))
    assert route.name == "bridge-driftq-orders-to-kafka-orders.v2"
    assert not route.reads_kafka
    assert parse_route("kafka:a", "driftq:b").reads_kafka


@pytest.mark.parametrize(
    ("source", "target", "problem"),
    [
        (None, "kafka:orders", "--from: a bridge needs --from and --to"),
        ("orders", "kafka:orders", "--from: 'orders' is not driftq:TOPIC or kafka:TOPIC"),
        ("redis:orders", "kafka:orders", "--from: 'redis:orders' is not"),
        ("driftq:orders", "driftq:copy", "--to: both ends are on driftq: one has to be kafka:TOPIC"),
        ("driftq:a b", "kafka:a", "--from: the topic 'a b' must be"),
        ("driftq:a", "kafka:", "--to: the topic '' must be 1 to 249"),
        ("kafka:dlq.a", "driftq:a", "--from: the topic 'dlq.a' must not start with dlq."),
    ],
)
def test_a_route_that_is_none_is_refused_with_its_option(
    source: str | None, target: str, problem: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_route(source, target)
    assert problem in str(refused.value)


def test_a_message_with_a_key_goes_where_kafka_puts_the_key_and_one_without_keeps_its_partition() -> None:
    keyed = to_kafka(ROW, "copy", partitions=4)
    assert (keyed.position, keyed.topic, keyed.key, keyed.partition) == (42, "copy", "k", -1)
    assert keyed.timestamp_ms == 1_700_000_000_123
    bare = to_kafka(StoredRow("orders", 6, 41, 1, "", "v", None), "copy", partitions=4)
    assert (bare.key, bare.partition) == (None, 2)


def test_an_envelope_travels_as_a_header_and_back_without_what_it_orders() -> None:
    given = Envelope(run_id="r", traceparent="00-1", idempotency_key="i", target_topic="t", deadline="d")
    text = json.dumps(
        {name: getattr(given, name) for name in given.__struct_fields__ if getattr(given, name)}
    )
    sent = to_kafka(StoredRow("orders", 0, 0, 1, "k", "v", text), "copy", partitions=1)
    headers = dict(sent.headers)
    assert headers == {
        "driftq.topic": "orders",
        "driftq.partition": "0",
        "driftq.offset": "0",
        "driftq.envelope": text,
        "traceparent": "00-1",
    }
    back = to_driftq(7, key="k", value="v", envelope=text, traceparent=None)
    assert (back.position, back.envelope) == (7, Envelope(run_id="r", traceparent="00-1"))


@pytest.mark.clause("P8", "Z10")
def test_headers_go_to_kafka_and_back_without_those_of_the_bridge() -> None:
    given = [{"key": "source", "value": b"bar"}, {"key": "driftq.topic", "value": b"forged"}]
    sent = to_kafka(StoredRow("orders", 0, 0, 1, "k", "v", None, given), "copy", partitions=1)
    assert ("source", b"bar") in sent.headers
    assert ("driftq.topic", b"forged") not in sent.headers
    found: list[dict[str, Any]] = [
        *({"key": name, "value": str(value).encode()} for name, value in sent.headers if name != "source"),
        {"key": "source", "value": b"bar"},
        {"key": "bytes", "value": b"\xff"},
        {"key": "none", "value": None},
    ]
    back = to_driftq(7, key="k", value="v", envelope=None, traceparent=None, headers=found)
    assert back.headers == {"source": "bar", "none": ""}
    many = [{"key": f"n{number}", "value": b""} for number in range(65)]
    assert to_driftq(7, key="k", value="v", envelope=None, traceparent=None, headers=many).headers is None


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"unknown": 1}', "[" * 100_000])
def test_a_header_that_is_no_envelope_holds_up_nothing(text: str | None) -> None:
    assert carried_envelope(text, None) is None
    assert carried_envelope(text, "00-9") == Envelope(traceparent="00-9")


def test_a_retry_policy_that_the_server_would_refuse_is_left_out() -> None:
    good, bad = '{"retry_policy": {"max_attempts": 3}}', '{"retry_policy": {"max_attempts": -3}}'
    assert carried_envelope(good, None) == Envelope(retry_policy=MessageRetryPolicy(max_attempts=3))
    assert carried_envelope(bad, None) is None


def test_what_is_absent_on_kafka_is_empty_on_driftq() -> None:
    copy = to_driftq(0, key=None, value=None, envelope=None, traceparent=None)
    assert (copy.key, copy.value, copy.envelope) == ("", "", None)


def test_a_lane_takes_rising_offsets_with_holes_and_no_others() -> None:
    order = LaneOrder({0: 10})
    for offset in (11, 20, 25):
        order.follow(0, offset)
    order.follow(1, 0)
    assert order.lasts == {0: 25, 1: 0}
    for offset in (25, 3):
        with pytest.raises(OffsetOutOfOrder, match=f"offset {offset} of partition 0 came after offset 25"):
            order.follow(0, offset)


def test_a_dead_letter_names_the_message_that_driftq_still_has() -> None:
    made = bridge_letter(to_kafka(ROW, "copy", partitions=4), "too large", bridge="b", identity="topic-1")
    assert (made.topic, made.position) == ("dlq.copy", 42)
    headers = [(name, value.encode() if isinstance(value, str) else value) for name, value in made.headers]
    letter = read_dead_letter(b"k", None, headers)
    assert letter is not None
    assert (letter.kind, letter.topic, letter.partition, letter.offset) == ("bridge", "orders", 6, 41)
    assert (letter.stage, letter.error, letter.identity) == ("publish", "too large", "topic-1")


def test_lanes_beyond_the_partitions_of_the_positions_share_them() -> None:
    assert [home_of(lane) for lane in range(HOMES + 2)] == [*range(HOMES), 0, 1]
