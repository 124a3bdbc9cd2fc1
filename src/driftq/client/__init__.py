"""The client: a server's calls from Python, awaited or not."""

from driftq.client.async_client import AsyncClient
from driftq.client.consuming.consumer import AsyncConsumer
from driftq.client.consuming.delivery import AsyncDelivery, Delivery
from driftq.client.consuming.sync_consumer import Consumer
from driftq.client.dead_letters import AsyncDeadLetters, DeadLetters
from driftq.client.effects import AlreadyCommitted, AsyncIdempotency, Begun, Held
from driftq.client.event_id import new_event_id
from driftq.client.event_store import AsyncEventStore, EventStore
from driftq.client.job_calls import AsyncJobCalls
from driftq.client.options import ClientOptions
from driftq.client.producing.outgoing import EnvelopeFields
from driftq.client.sync_calls import Idempotency, JobCalls
from driftq.client.sync_client import Client
from driftq.model.wire.append import AppendReceipt, OpenWriter, PositionedMessage
from driftq.model.wire.dlq import DeadLetter, DeadLetterTopic, Purged, Redriven, SkippedLetter
from driftq.model.wire.events import EventReceipt
from driftq.model.wire.explain import (
    ExplainedMessage,
    ExplainedRun,
    ExplainedStep,
    ExplainedStepMessage,
    GroupStatus,
    TimelineEntry,
)
from driftq.model.wire.idempotency import EffectStatus
from driftq.model.wire.jobs import JobEnd
from driftq.model.wire.messages import RecordedMessage
from driftq.model.wire.produce import Receipt

__all__ = [
    "AlreadyCommitted",
    "AppendReceipt",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncDeadLetters",
    "AsyncDelivery",
    "AsyncEventStore",
    "AsyncIdempotency",
    "AsyncJobCalls",
    "Begun",
    "Client",
    "ClientOptions",
    "Consumer",
    "DeadLetter",
    "DeadLetterTopic",
    "DeadLetters",
    "Delivery",
    "EffectStatus",
    "EnvelopeFields",
    "EventReceipt",
    "EventStore",
    "ExplainedMessage",
    "ExplainedRun",
    "ExplainedStep",
    "ExplainedStepMessage",
    "GroupStatus",
    "Held",
    "Idempotency",
    "JobCalls",
    "JobEnd",
    "OpenWriter",
    "PositionedMessage",
    "Purged",
    "Receipt",
    "RecordedMessage",
    "Redriven",
    "SkippedLetter",
    "TimelineEntry",
    "new_event_id",
]
