"""Dead letters of handlers without a transport: ids, headers, what collapses, what no pattern matches."""

from __future__ import annotations

import msgspec
import pytest

from driftq.kafka.dead_letters import dead_letter_headers, read_dead_letter
from driftq.model.dead_letter import (
    HandlerDeadLetter,
    HandlerKind,
    dead_letter_from,
    facts_of,
    newest_of_each,
)
from driftq.model.wire.handler_letters import HandlerLetter
from driftq.pipeline.dead_letters.driftq_letters import DriftqDeadLetters
from driftq.pipeline.dead_letters.relay import publish_all
from driftq.pipeline.transport import TopicSubscription
from driftq.publishing.kafka.lane import OutgoingEvent
from driftq.publishing.kafka.letters import dead_letter

LETTER = HandlerDeadLetter(
    kind=HandlerKind.WORKER,
    handler="billing",
    topic="orders",
    partition=2,
    offset=17,
    stage="handle",
    error="broken",
    reason="max_attempts",
    attempts=6,
    at=1_700_000_000_123,
    key="o-1",
    value='{"n":1}',
    event_id="e-1",
    identity="driftq/cluster/7",
    redrives=2,
)


@pytest.mark.clause("K10")
def test_the_id_is_that_of_handler_topic_place_and_stage_and_of_nothing_else() -> None:
    replace = msgspec.structs.replace
    same = [
        replace(LETTER, error="otherwise"),
        replace(LETTER, attempts=1),
        replace(LETTER, at=5),
        replace(LETTER, value=None),
        replace(LETTER, redrives=0),
        replace(LETTER, topic="another name of the same topic"),
    ]
    assert {letter.id for letter in same} == {LETTER.id}
    others = [
        replace(LETTER, kind=HandlerKind.PROJECTION),
        replace(LETTER, handler="other"),
        replace(LETTER, identity="driftq/cluster/8"),
        replace(LETTER, identity=""),
        replace(LETTER, partition=3),
        replace(LETTER, offset=18),
        replace(LETTER, stage="decode"),
    ]
    assert len({LETTER.id, *(letter.id for letter in others)}) == 1 + len(others)
    assert LETTER.id == "d7d75873a21a1b55f4d91831026b80ed", "stored ids would no longer collapse"


@pytest.mark.clause("K10")
def test_of_equal_ids_the_one_that_was_redriven_most_often_is_shown() -> None:
    first = msgspec.structs.replace(LETTER, redrives=0)
    other = msgspec.structs.replace(LETTER, offset=1)
    assert newest_of_each([first, other, first, LETTER, first]) == [LETTER, other]


@pytest.mark.clause("K10")
@pytest.mark.parametrize("value", ['{"n":1}', None])
def test_every_form_on_the_way_keeps_every_fact(value: str | None) -> None:
    letter = msgspec.structs.replace(LETTER, value=value)
    octets = None if value is None else value.encode()
    assert read_dead_letter(b"o-1", octets, dead_letter_headers(letter)) == letter
    assert HandlerLetter.of(letter).dead_letter("orders") == letter
    again = dead_letter_from(facts_of(letter), key=letter.key, value=value or "")
    assert again == msgspec.structs.replace(letter, value=value or "")


@pytest.mark.clause("K10", "U7")
def test_the_publishers_dead_letter_is_read_like_others() -> None:
    headers = [
        ("event_id", "e-9"),
        ("aggregate_type", "order"),
        ("aggregate_id", "o-9"),
        ("sequence_number", "3"),
    ]
    sent = dead_letter(OutgoingEvent(41, "events.order", "o-9", "x" * 50, list(headers)), "too large")
    assert (sent.topic, sent.key) == ("dlq.events.order", "o-9")
    value = sent.value if isinstance(sent.value, bytes) else sent.value.encode()
    given = [(name, text.encode() if isinstance(text, str) else text) for name, text in sent.headers]
    letter = read_dead_letter(b"o-9", value, given)
    assert letter is not None
    assert (letter.kind, letter.stage, letter.event_id) == (HandlerKind.PUBLISHER, "publish", "e-9")
    assert (letter.topic, letter.offset, letter.error) == ("events.order", 41, "too large")


@pytest.mark.clause("K10", "D7")
def test_a_dead_letter_topic_has_no_dead_letter_topic_of_its_own() -> None:
    nowhere = DriftqDeadLetters("http://127.0.0.1:1", patience_s=0)
    of_dlq = msgspec.structs.replace(LETTER, topic="dlq.orders")
    assert publish_all(nowhere, [of_dlq]) == [None]


@pytest.mark.clause("K10", "D7")
def test_a_pattern_matches_whole_names_and_no_dead_letter_topic() -> None:
    for pattern in (".*", r"events\..*", "events.order|.*order"):
        subscription = TopicSubscription(pattern=pattern)
        assert subscription.matches("events.order")
        assert not subscription.matches("dlq.events.order")
    assert not TopicSubscription(pattern="order").matches("events.order")
    assert TopicSubscription(topics=("dlq.orders",)).matches("dlq.orders")
