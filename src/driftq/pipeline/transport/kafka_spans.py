"""Kafka's topics as the stream reader of topics asks for them: which there are, and what is left to read.

Offsets of aborted messages and of the markers of transactions count as messages: Kafka does not say how many
of the offsets between two places have one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from driftq.errors import KafkaMessagesExpired, KafkaTopicNotFound, TopicNotFound
from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.kafka import KafkaOptions
from driftq.model.wire.topics import SpanReply, SpansReply
from driftq.pipeline.source.offsets import Bounds, Offsets
from driftq.pipeline.transport.port import TopicSubscription

_TRIES_MAX = 3


class KafkaSpans:
    """The topics of a subscription. All of them are looked up at once, with `refresh` or `bounds`."""

    def __init__(self, options: KafkaOptions, subscription: TopicSubscription) -> None:
        self._options = options
        self._subscription = subscription
        self._cluster: KafkaCluster | None = None
        self._bounds: dict[str, dict[str, Bounds]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cluster": None}

    def names(self) -> Sequence[str]:
        return list(self._bounds)

    def refresh(self) -> None:
        """Look up the topics, and the first and the committed end of every partition."""
        for tried in range(1, _TRIES_MAX + 1):
            try:
                self._bounds = self._look_up()
            except KafkaTopicNotFound:  # Deleted since it was listed.
                if tried == _TRIES_MAX:
                    raise
            else:
                return

    def bounds(self, *, strict: bool) -> dict[str, dict[str, Bounds]]:
        """First and end of every partition; a topic that does not exist yet is left out."""
        self.refresh()
        return self._bounds

    def spans(self, topic: str, wanted: Iterable[Mapping[str, Any]] | None = None) -> SpansReply:
        """These spans of a topic as it was looked up last. Raises TopicNotFound."""
        bounds = self._bounds.get(topic)
        if bounds is None:
            raise TopicNotFound(topic)
        ends = max((bound.end for bound in bounds.values()), default=0)
        asked = [{"partition": int(number)} for number in bounds] if wanted is None else wanted
        spans = [
            _span(each, bounds[str(each["partition"])]) for each in asked if str(each["partition"]) in bounds
        ]
        return SpansReply(instance="", next_offset=ends, partitions=len(bounds), table=False, spans=spans)

    def report(self, offsets: Offsets) -> None:
        """Kafka's retention does not depend on readers."""

    def checked(self, topic: str, span: SpanReply, *, next_offset: int) -> int:
        """Where reading begins; raises KafkaMessagesExpired when that offset is not there."""
        bound = self._bounds[topic][str(span.partition)]
        if not bound.first <= span.from_ <= bound.end:
            raise KafkaMessagesExpired(
                topic, span.partition, wanted=span.from_, oldest=bound.first, end=bound.end
            )
        return span.from_

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _look_up(self) -> dict[str, dict[str, Bounds]]:
        if self._cluster is None:
            self._cluster = KafkaCluster(self._options)
        names = [name for name in self._cluster.topics() if self._subscription.matches(name)]
        firsts = self._cluster.beginning_offsets(names)
        found: dict[str, dict[str, Bounds]] = {name: {} for name in names}
        for (topic, partition), end in self._cluster.end_offsets(names).items():
            first = firsts[topic, partition]
            found[topic][str(partition)] = Bounds(first, max(first, end))
        return found


def _span(asked: Mapping[str, Any], bound: Bounds) -> SpanReply:
    start = asked.get("from", bound.first)
    upto = min(asked.get("to", bound.end), bound.end)
    if "limit" in asked:
        upto = min(upto, start + asked["limit"])
    return SpanReply(
        partition=asked["partition"],
        first_offset=bound.first,
        from_=start,
        to=max(start, upto),
        messages=max(0, upto - start),
        behind=max(0, bound.end - start),
        cuts=[],
    )
