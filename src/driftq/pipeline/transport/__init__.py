"""The transport between the event log and its readers: DriftQ's own topics, or Kafka."""

from driftq.pipeline.transport.open import open_transport
from driftq.pipeline.transport.port import COLUMNS, TopicSubscription, Transport
from driftq.pipeline.transport.resume import identified, resume_offsets, topics_started_over

__all__ = [
    "COLUMNS",
    "TopicSubscription",
    "Transport",
    "identified",
    "open_transport",
    "resume_offsets",
    "topics_started_over",
]
