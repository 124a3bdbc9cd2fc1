"""The client: a server's calls from Python, with asyncio and without."""

from driftq.client.async_client import AsyncClient
from driftq.client.consuming.consumer import AsyncConsumer
from driftq.client.consuming.delivery import AsyncDelivery
from driftq.client.consuming.incoming import Receipt, RecordedMessage
from driftq.client.dead_letters import (
    AsyncDeadLetters,
    DeadLetter,
    DeadLetterTopic,
    Purged,
    Redriven,
    SkippedLetter,
)
from driftq.client.effects import AlreadyCommitted, AsyncIdempotency, Begun, EffectStatus, Held
from driftq.client.event_id import new_event_id
from driftq.client.event_store import AsyncEventStore, EventReceipt
from driftq.client.explaining import (
    ExplainedMessage,
    ExplainedRun,
    ExplainedStep,
    ExplainedStepMessage,
    GroupStatus,
    TimelineEntry,
)
from driftq.client.job_calls import AsyncJobCalls, JobEnd
from driftq.client.options import ClientOptions
from driftq.client.producing.append import AppendReceipt, OpenWriter, PositionedMessage
from driftq.client.producing.outgoing import EnvelopeFields
from driftq.client.sync.client import Client
from driftq.client.sync.consumer import Consumer
from driftq.client.sync.dead_letters import DeadLetters
from driftq.client.sync.delivery import Delivery
from driftq.client.sync.effects import Idempotency
from driftq.client.sync.event_store import EventStore
from driftq.client.sync.job_calls import JobCalls

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
