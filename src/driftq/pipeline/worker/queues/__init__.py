"""The events of a task, in one queue for each aggregate."""

from driftq.pipeline.worker.queues.aggregate_queues import (
    AggregateQueue,
    AggregateQueues,
    directly_after,
)
from driftq.pipeline.worker.queues.topic_event import TopicEvent

__all__ = ["AggregateQueue", "AggregateQueues", "TopicEvent", "directly_after"]
