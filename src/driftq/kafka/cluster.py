"""A Kafka cluster as readers and writers see it: its identity, its topics and where they end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from driftq.errors import KafkaTopicNotFound, KafkaUnavailable
from driftq.kafka.clients import Complaints, open_admin
from driftq.kafka.translation import is_transient_error, is_unknown_topic, translated
from driftq.model.options.kafka import KafkaOptions
from driftq.model.options.pipeline import KAFKA

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._metadata import ClusterMetadata

ANSWER_S = 30.0
_REQUEST_S = 5.0
"""For one request: the client may have sent it to a server that has just died."""
_BROKER_DEFAULT = -1
_POLL_S = 0.05

Partition = tuple[str, int]
_Answer = TypeVar("_Answer")


class KafkaCluster:
    """One connection for questions and for new topics. Every call raises our errors, within `answer_s`."""

    def __init__(self, options: KafkaOptions, *, answer_s: float = ANSWER_S) -> None:
        self._options = options
        self._answer_s = answer_s
        self._request_s = min(_REQUEST_S, answer_s / 2)
        self._complaints = Complaints()
        self._admin: AdminClient = open_admin(options, self._complaints)
        self.bootstrap = str(options.bootstrap)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection; the client has no other end."""
        self._complaints.poll = None
        self.__dict__.pop("_admin", None)

    def cluster_id(self) -> str:
        """The identity that a cluster has for its whole life."""
        with translated(self._options, self._complaints):
            return self._admin.cluster_id(timeout=self._answer_s)

    def topics(self) -> dict[str, int]:
        """Every topic with its number of partitions, without Kafka's own."""
        found = self._metadata().topics
        return {name: len(one.partitions) for name, one in sorted(found.items()) if not name.startswith("__")}

    def partitions(self, topic: str) -> int:
        """The number of partitions; raises KafkaTopicNotFound."""
        return len(self._describe([topic], required=True)[topic].partitions)

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """The id of each topic that exists. A topic that was deleted and created again has another one."""
        return {name: str(found.topic_id) for name, found in self._describe(list(names)).items()}

    def identities(self, names: Iterable[str]) -> dict[str, str]:
        """The same ids as texts that no other topic has, of this cluster or of another transport."""
        found = self.topic_ids(names)
        cluster_id = self.cluster_id() if found else ""
        return {name: f"{KAFKA}/{cluster_id}/{topic_id}" for name, topic_id in found.items()}

    def create_topic(
        self, name: str, *, partitions: int | None = None, config: Mapping[str, str] | None = None
    ) -> bool:
        """Create a topic, if there is none of this name; whether it was created here.

        It can be used when this returns. An existing one is left as it is.
        """
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        wanted = NewTopic(
            name,
            num_partitions=partitions or self._options.topic_partitions,
            replication_factor=self._options.topic_replicas or _BROKER_DEFAULT,
            config=dict(config or {}),
        )
        with translated(self._options, self._complaints):
            made = self._admin.create_topics([wanted], request_timeout=self._answer_s)[name]
            try:
                self._result(made)
            except KafkaException as refused:
                if refused.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                created = False
            else:
                created = True
        self._wait_for(name)  # Also where another client has just created it.
        return created

    def delete_topic(self, name: str) -> None:
        """Delete a topic, if it exists. It is gone when this returns."""
        from confluent_kafka import KafkaException

        with translated(self._options, self._complaints):
            try:
                self._result(self._admin.delete_topics([name], request_timeout=self._answer_s)[name])
            except KafkaException as refused:
                if not is_unknown_topic(refused.args[0]):
                    raise
        self._wait_for(name, exists=False)

    def beginning_offsets(self, topics: Iterable[str]) -> dict[Partition, int]:
        """The oldest offset of each partition."""
        return self._offsets(topics, "earliest", committed=False)

    def end_offsets(self, topics: Iterable[str], *, committed: bool = True) -> dict[Partition, int]:
        """The next offset of each partition; with `committed`, up to the first open transaction."""
        return self._offsets(topics, "latest", committed=committed)

    def partition_end(self, topic: str, partition: int, *, committed: bool) -> int:
        """The same for one partition; raises KafkaTopicNotFound."""
        from confluent_kafka import TopicPartition

        asked = self._list_offsets(
            [TopicPartition(topic, partition)], "latest", committed=committed, topic=topic
        )
        return asked[topic, partition]

    def topic_settings(self, topic: str) -> dict[str, str]:
        """The configuration of a topic, such as `cleanup.policy`."""
        from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

        asked = ConfigResource(ResourceType.TOPIC, topic)
        with translated(self._options, self._complaints, topic=topic):
            answer = self._admin.describe_configs([asked], request_timeout=self._answer_s)[asked]
            return {name: str(entry.value) for name, entry in self._result(answer).items()}

    def _metadata(self) -> ClusterMetadata:
        with translated(self._options, self._complaints):
            return self._admin.list_topics(timeout=self._answer_s)

    def _describe(self, names: list[str], *, required: bool = False) -> dict[str, Any]:
        from confluent_kafka import KafkaException, TopicCollection

        if not names:
            return {}

        def ask() -> dict[str, Any]:
            found: dict[str, Any] = {}
            asked = self._admin.describe_topics(TopicCollection(names), request_timeout=self._request_s)
            for name, future in asked.items():
                try:
                    found[name] = self._result(future)
                except KafkaException as refused:
                    if not is_unknown_topic(refused.args[0]):
                        raise
            return found

        with translated(self._options, self._complaints):
            found = self._repeated(ask)
        missing = [name for name in names if name not in found]
        if required and missing:
            raise KafkaTopicNotFound(missing[0])
        return found

    def _offsets(
        self, topics: Iterable[str], which: Literal["earliest", "latest"], *, committed: bool
    ) -> dict[Partition, int]:
        from confluent_kafka import TopicPartition

        wanted = [
            TopicPartition(topic, number)
            for topic, found in self._describe(list(topics), required=True).items()
            for number in range(len(found.partitions))
        ]
        return self._list_offsets(wanted, which, committed=committed)

    def _list_offsets(
        self,
        wanted: list[TopicPartition],
        which: Literal["earliest", "latest"],
        *,
        committed: bool,
        topic: str | None = None,
    ) -> dict[Partition, int]:
        from confluent_kafka import IsolationLevel
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        if not wanted:
            return {}
        asked = dict.fromkeys(wanted, getattr(OffsetSpec, which)())
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

        def ask() -> dict[Partition, int]:
            answers = self._admin.list_offsets(asked, isolation_level=level, request_timeout=self._request_s)
            return {(at.topic, at.partition): self._result(one).offset for at, one in answers.items()}

        with translated(self._options, self._complaints, topic=topic):
            return self._repeated(ask)

    def _wait_for(self, topic: str, *, exists: bool = True) -> None:
        """A change is known to the controller first, and to the other servers a moment later."""
        end = time.monotonic() + self._answer_s
        while bool(self._describe([topic])) is not exists:
            if time.monotonic() > end:
                cause = f"topic {topic} is not {'created' if exists else 'deleted'} in time"
                raise KafkaUnavailable(self.bootstrap, cause=cause)
            time.sleep(_POLL_S)

    def _repeated(self, ask: Callable[[], _Answer]) -> _Answer:
        """The answer to a question that is repeated while its failure is passing and there is time left."""
        from confluent_kafka import KafkaException

        end = time.monotonic() + self._answer_s - self._request_s
        while True:
            try:
                return ask()
            except KafkaException as failed:
                if not is_transient_error(failed.args[0]) or time.monotonic() > end:
                    raise
            time.sleep(_POLL_S)

    def _result(self, future: Future[Any]) -> Any:
        try:
            return future.result(timeout=self._answer_s + 1)
        except TimeoutError:
            raise KafkaUnavailable(self.bootstrap, cause="no answer in time") from None
