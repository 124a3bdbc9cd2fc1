"""Dead letters of workers, projections and the publisher: their relays publish them through the server.

Clients cannot produce to `dlq.<topic>`. A relay hands over whole dead letters, and the server writes the
message, so that all dead letters of a topic have one form. Each is stored once for as long as it is not
purged, however often it is published: the record that stores it carries its id. When an event was redriven
and is given up once more, its new dead letter takes the place of the old one.
"""

from __future__ import annotations

from dataclasses import dataclass

from driftq.core.commands import Produce
from driftq.core.decide.dead_letters import (
    DeadLetterCommand,
    dead_letter_partition,
    decide_handler_dead_letters,
    known_refs,
)
from driftq.core.decide.produce import Accepted, Duplicate
from driftq.core.decide.topics import new_topic
from driftq.core.records import DeadLettersPurged
from driftq.core.state import State, Topic
from driftq.errors import DriftQError, NotConfirmed
from driftq.model import Envelope, StoredMessage, TopicOptions
from driftq.model.dead_letter import HandlerDeadLetter, facts_of
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.server.deliver.consumers import Consumers
from driftq.server.produce.prepare import size_of
from driftq.server.requests import Reply
from driftq.server.turn import Turn
from driftq.storage.entry import encode_entry, encode_time

StoredOutcome = Accepted | Duplicate | DriftQError


@dataclass(frozen=True, slots=True)
class StoreDeadLettersRequest:
    """Store dead letters of handlers; answered by a list with an outcome for each, in order."""

    topic: str
    """The original topic."""
    dead_letters: list[HandlerDeadLetter]
    ids: list[str]
    reply: Reply


def store_dead_letters(
    turn: Turn, request: StoreDeadLettersRequest, consumers: Consumers
) -> list[StoredOutcome] | None:
    """Store those that are new; None while stored ones have to be read first, and the request is queued."""
    topic = dlq_topic_for(turn, request.topic)
    commands = [
        DeadLetterCommand(id, dead_letter.redrives, _message(turn, topic, dead_letter, id))
        for dead_letter, id in zip(request.dead_letters, request.ids, strict=True)
    ]
    cold = turn.lookup.cold(known_refs(turn.state, topic, commands))
    if cold:
        turn.requeue_when_read(cold, request)
        return None
    # A dead letter has no deadline, so that either clock serves.
    decided = decide_handler_dead_letters(
        turn.state, topic, commands, lookup=turn.lookup.message, now=turn.now, wall=turn.now
    )
    for record, entries in decided.batch.records:
        turn.journal.add_stored(record, entries)
        turn.counters.dead_lettered += len(entries)
    if decided.superseded:
        purged = DeadLettersPurged(at=turn.now, topic=topic.id, offsets=decided.superseded)
        turn.journal.add(purged)
    turn.counters.duplicates += sum(isinstance(outcome, Duplicate) for outcome in decided.outcomes)
    consumers.stored(topic.name, {outcome[0] for outcome in decided.outcomes if isinstance(outcome, tuple)})
    return [NotConfirmed(outcome) if isinstance(outcome, str) else outcome for outcome in decided.outcomes]


def _message(turn: Turn, topic: Topic, dead_letter: HandlerDeadLetter, id: str) -> Produce:
    value = dead_letter.value or ""
    stored = StoredMessage(dead_letter.key, value, Envelope(dlq=facts_of(dead_letter, id=id)))
    return Produce(
        topic=topic.name,
        requested_topic=topic.name,
        key=dead_letter.key,
        value=value,
        size_bytes=size_of(dead_letter.key) + size_of(value),
        entry=encode_entry(stored, encode_time(turn.now)),
        plain=False,
        override=dead_letter_partition(dead_letter.partition, partitions=len(topic.partitions)),
    )


def dlq_topic_for(turn: Turn, name: str) -> Topic:
    """The dead-letter topic of a topic, which may be deleted by now; created if there is none.

    It has as many partitions as the topic, and one where the topic does not exist, and belongs to its tenant.
    """
    state: State = turn.state
    dlq_name = DEAD_LETTER_PREFIX + name
    if dlq_name not in state.topics:
        origin = state.topics.get(name)
        partitions = len(origin.partitions) if origin is not None else 1
        options = origin.options if origin is not None else TopicOptions()
        tenant = origin.tenant if origin is not None else ""
        turn.journal.add(
            new_topic(state, dlq_name, partitions=partitions, options=options, now=turn.now, tenant=tenant)
        )
    return state.topics[dlq_name]
