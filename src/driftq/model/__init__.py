"""The vocabulary: what a message, an envelope, a routing decision and a delivery are. Data only."""

from driftq.model.delivery import Delivery
from driftq.model.envelope import DeadLetterFacts, Envelope, RetryPolicy
from driftq.model.event import Aggregate, Event, Operation
from driftq.model.message import Message, Routing, RoutingDecision, StoredMessage
from driftq.model.topic import MAX_PARTITIONS, TopicOptions, topic_name_problem
from driftq.model.view import GroupView, PartitionView, ReaderView, StreamView, TopicView, WriterView

__all__ = [
    "MAX_PARTITIONS",
    "Aggregate",
    "DeadLetterFacts",
    "Delivery",
    "Envelope",
    "Event",
    "GroupView",
    "Message",
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
