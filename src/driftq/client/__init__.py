"""The client: a server's calls from Python, with asyncio and without."""

from driftq.client.async_client import AsyncClient
from driftq.client.consuming.consumer import AsyncConsumer
from driftq.client.consuming.delivery import AsyncDelivery
from driftq.client.dead_letters import AsyncDeadLetters
from driftq.client.effects import AlreadyCommitted, AsyncIdempotency, Begun, Held, LeftUnknown
from driftq.client.event_id import new_event_id
from driftq.client.event_store import AsyncEventStore
from driftq.client.follower import AsyncEventFollower
from driftq.client.job_calls import AsyncJobCalls
from driftq.client.options import ClientOptions
from driftq.client.producing.outgoing import EnvelopeFields
from driftq.client.queue_calls import AsyncQueueCalls
from driftq.client.schedule_calls import AsyncScheduleCalls
from driftq.client.sync.client import Client
from driftq.client.sync.consumer import Consumer
from driftq.client.sync.dead_letters import DeadLetters
from driftq.client.sync.delivery import Delivery
from driftq.client.sync.effects import Idempotency
from driftq.client.sync.event_store import EventStore
from driftq.client.sync.follower import EventFollower
from driftq.client.sync.job_calls import JobCalls
from driftq.client.sync.queue_calls import QueueCalls
from driftq.client.sync.schedule_calls import ScheduleCalls
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
    "AsyncEventFollower",
    "AsyncEventStore",
    "AsyncIdempotency",
    "AsyncJobCalls",
    "AsyncQueueCalls",
    "AsyncScheduleCalls",
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
    "EventFollower",
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
    "LeftUnknown",
    "OpenWriter",
    "PositionedMessage",
    "Purged",
    "QueueCalls",
    "Receipt",
    "RecordedMessage",
    "Redriven",
    "ScheduleCalls",
    "SkippedLetter",
    "TimelineEntry",
    "new_event_id",
]
