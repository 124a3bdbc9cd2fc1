"""The port to a transport: which topics there are, how each is told from others, and its messages in Spark.

An offset means something only together with the topic's identity: transport, cluster and topic id as one
text. Readers store both. A topic that was deleted and created again, or that is on another transport, has
another identity, so a reader that finds no position under it begins at the earliest message.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from driftq.errors import InvalidArgument
from driftq.model.topic import DEAD_LETTER_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from driftq.sinks import TopicPartition

COLUMNS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "key",
    "value",
    "event_id",
    "aggregate_type",
    "aggregate_id",
    "sequence_number",
)
"""What every transport's messages have. The last four are null where a message is no event."""
COLUMN_TYPES = (
    "topic string, partition int, offset long, timestamp timestamp, key string, value string, "
    "event_id string, aggregate_type string, aggregate_id string, sequence_number long"
)
"""The same as Spark's schema."""
VALUE_BYTES = "value_bytes"
"""A further column of a transport whose values are bytes: the value before it was checked to be text."""
EVENT_HEADERS = ("event_id", "aggregate_type", "aggregate_id", "sequence_number")
"""The first headers of a published event on Kafka, in this order."""
NOT_TEXT = "not UTF-8, in base64: "
"""Precedes bytes that are no text: no JSON begins like this, so such a message becomes a dead letter."""


def as_text(value: bytes) -> str:
    """Key or value as text; bytes that are none follow NOT_TEXT."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return NOT_TEXT + base64.b64encode(value).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSubscription:
    """Topics by name, or those whose whole name matches a regular expression.

    A pattern matches no dead-letter topic, however wide it is: a handler that reads what handlers gave up
    would give it up once more.
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None

    def __post_init__(self) -> None:
        if bool(self.topics) == bool(self.pattern):
            raise InvalidArgument("topics", "a subscription needs topics or a pattern, and not both")

    @property
    def options(self) -> dict[str, str]:
        """As options of a Spark source; Kafka's source has the same names."""
        if self.pattern is not None:
            return {"subscribePattern": self.regex}
        return {"subscribe": ",".join(self.topics)}

    @property
    def regex(self) -> str:
        """The pattern, for names as a whole. Java's engine reads it as Python's does."""
        return rf"^(?!{re.escape(DEAD_LETTER_PREFIX)})(?:{self.pattern})$"

    def matches(self, topic: str) -> bool:
        if self.pattern is None:
            return topic in self.topics
        return re.fullmatch(self.regex, topic) is not None


class Transport(Protocol):
    """One cluster's topics. Methods raise an Unavailable when it is unreachable."""

    @property
    def name(self) -> str:
        """The word of DRIFTQ_TRANSPORT."""

    def waits(self, subscription: TopicSubscription) -> bool:
        """Whether its source waits for messages, so that a trigger may follow the one before at once."""

    def check(self) -> None:
        """Raise the error that would keep a query from starting, within seconds."""

    def identities(self, subscription: TopicSubscription) -> dict[str, str]:
        """The topics of a subscription that exist now, each with its identity."""

    def late_identity(self, topic: str) -> str:
        """The identity of a topic that `identities` did not have, and of which a batch has messages.

        Raises TopicAppeared where the query has to start again: the topic that was read could be another one
        than the topic that has the name now.
        """

    def stream(
        self,
        spark: SparkSession,
        subscription: TopicSubscription,
        *,
        reader: str,
        starting: Mapping[TopicPartition, int],
        messages_max: int,
        newest_by: str | None = None,
        identities: Mapping[str, str] | None = None,
    ) -> DataFrame:
        """The messages from these offsets on, with at least `COLUMNS`; other partitions from their start.

        `reader` is the query's name, under which the transport may show progress. With `newest_by`, the
        transport may leave out messages that a later one of the same aggregate, or key, supersedes.
        `identities` are those that the caller stores positions under; the default is those of now.
        """

    def close(self) -> None: ...
