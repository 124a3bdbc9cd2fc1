"""The vocabulary: messages, envelopes, routing decisions, deliveries. Data only.

Names load when they are first used: commands read the options below this package and need no msgspec.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftq.model.envelope import DeadLetterFacts, Envelope, MessageRetryPolicy
    from driftq.model.event import Aggregate, Event, Operation
    from driftq.model.message import Message, Routing, RoutingDecision, StoredMessage
    from driftq.model.retry import RetryPolicy
    from driftq.model.topic import MAX_PARTITIONS, TopicOptions, topic_name_problem
    from driftq.model.wire.messages import DeliveryLine
    from driftq.model.wire.topics import (
        GroupView,
        PartitionView,
        ReaderView,
        StreamView,
        TopicView,
        WriterView,
    )

__all__ = [
    "MAX_PARTITIONS",
    "Aggregate",
    "DeadLetterFacts",
    "DeliveryLine",
    "Envelope",
    "Event",
    "GroupView",
    "Message",
    "MessageRetryPolicy",
    "Operation",
    "PartitionView",
    "ReaderView",
    "RetryPolicy",
    "Routing",
    "RoutingDecision",
    "StoredMessage",
    "StreamView",
    "TopicOptions",
    "TopicView",
    "WriterView",
    "topic_name_problem",
]

_HOMES = {
    "DeliveryLine": "wire.messages",
    "DeadLetterFacts": "envelope",
    "Envelope": "envelope",
    "MessageRetryPolicy": "envelope",
    "RetryPolicy": "retry",
    "Aggregate": "event",
    "Event": "event",
    "Operation": "event",
    "Message": "message",
    "Routing": "message",
    "RoutingDecision": "message",
    "StoredMessage": "message",
    "MAX_PARTITIONS": "topic",
    "TopicOptions": "topic",
    "topic_name_problem": "topic",
    "GroupView": "wire.topics",
    "PartitionView": "wire.topics",
    "ReaderView": "wire.topics",
    "StreamView": "wire.topics",
    "TopicView": "wire.topics",
    "WriterView": "wire.topics",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
