"""Errors of Kafka, as its clients report them. No text contains a password."""

from __future__ import annotations

from driftq.errors.kinds import FailedPrecondition, NotFound, PermissionDenied, Unauthenticated, Unavailable


class KafkaUnavailable(Unavailable):
    """No Kafka server answers, or not in time. The request may or may not have been handled."""

    reason = "kafka_unavailable"

    def __init__(self, bootstrap: str, *, cause: str) -> None:
        super().__init__(f"Kafka does not answer at {bootstrap}: {cause}")
        self.bootstrap = bootstrap
        self.cause = cause


class KafkaLoginRefused(Unauthenticated):
    """Kafka does not accept the user, the password or the certificate."""

    reason = "kafka_login_refused"

    def __init__(self, bootstrap: str, *, cause: str) -> None:
        super().__init__(f"Kafka at {bootstrap} refuses the login: {cause}")
        self.bootstrap = bootstrap
        self.cause = cause


class KafkaAccessDenied(PermissionDenied):
    """The user of Kafka lacks a permission."""

    reason = "kafka_access_denied"

    def __init__(self, bootstrap: str, *, cause: str) -> None:
        super().__init__(f"Kafka at {bootstrap} denies access: {cause}")
        self.bootstrap = bootstrap
        self.cause = cause


class KafkaTopicNotFound(NotFound):
    reason = "kafka_topic_not_found"

    def __init__(self, topic: str) -> None:
        super().__init__(f"Kafka has no topic {topic!r}")
        self.topic = topic


class KafkaOffsetGone(FailedPrecondition):
    """A reader's next offset is below the oldest message, or beyond the end: messages were lost before it."""

    reason = "kafka_offset_gone"

    def __init__(self, topic: str, *, partition: int, wanted: int) -> None:
        super().__init__(
            f"partition {partition} of Kafka's topic {topic!r} was to be read from {wanted}, which it "
            "does not have: retention removed messages before they were read, or the topic was cut back. "
            "A rebuild takes them from the event log: driftq pipeline run rebuild --name NAME"
        )
        self.topic = topic
        self.partition = partition
        self.wanted = wanted


class KafkaProducerLost(FailedPrecondition):
    """Another producer has the same transactional id, or Kafka has forgotten this one: open a new one."""

    reason = "kafka_producer_lost"

    def __init__(self, transactional_id: str, *, cause: str) -> None:
        super().__init__(f"the Kafka producer {transactional_id} can send no more: {cause}")
        self.transactional_id = transactional_id
        self.cause = cause


class KafkaMessageRefused(FailedPrecondition):
    """Kafka refused a message of a transaction, and nothing of it becomes visible: open a new producer."""

    reason = "kafka_message_refused"

    def __init__(self, transactional_id: str, *, cause: str) -> None:
        super().__init__(f"Kafka refused a message of the producer {transactional_id}: {cause}")
        self.transactional_id = transactional_id
        self.cause = cause


class KafkaRefused(FailedPrecondition):
    """Kafka refuses a request, and would refuse it again."""

    reason = "kafka_refused"

    def __init__(self, bootstrap: str, *, cause: str) -> None:
        super().__init__(f"Kafka at {bootstrap} refuses: {cause}")
        self.bootstrap = bootstrap
        self.cause = cause
