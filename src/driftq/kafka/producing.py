"""A transactional producer: what it sends becomes visible to readers of committed messages at once, or never.

Kafka lets the last producer that opens a transactional id win and fences those before it. A fenced producer
raises KafkaProducerLost and can never send again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from driftq.errors import DriftQError, KafkaMessageRefused, KafkaProducerLost, KafkaUnavailable
from driftq.kafka.clients import Complaints, open_producer, require_kafka
from driftq.kafka.translation import is_transient_error, translate
from driftq.model.options.kafka import KafkaOptions

if TYPE_CHECKING:
    from confluent_kafka import KafkaException, Message
    from confluent_kafka.cimpl import KafkaError

TRANSACTION_S = 60.0
"""After this long the servers abort a transaction, such as one that a killed producer left open."""
BY_KEY = -1
"""In place of a partition: the one that the key leads to, or any where there is no key."""
NOW = 0
"""In place of a timestamp."""
_CALL_S = 1.0
_LOOK_S = 0.1
"""How often a wait for confirmations looks for refusals."""


class RefusedMessage(NamedTuple):
    """A message that Kafka did not take."""

    error: KafkaError
    size_bytes: int
    tag: int | None
    """As it was given to `send`."""

    @property
    def is_too_large(self) -> bool:
        return _is_too_large(self.error)

    @property
    def is_dropped(self) -> bool:
        """By the client, because another message of the transaction was refused."""
        from confluent_kafka import KafkaError as Code

        return self.error.code() in (Code._PURGE_QUEUE, Code._PURGE_INFLIGHT)


class TransactionalProducer:
    """Opened at once: producers with the same id that were opened before are fenced from here on."""

    def __init__(
        self, options: KafkaOptions, transactional_id: str, *, patience_s: float = 30.0, **own: Any
    ) -> None:
        """`patience_s` bounds each wait for the servers; `own` are options of the client."""
        require_kafka(options)
        from confluent_kafka import KafkaException

        self._kafka_exception = KafkaException
        self._options = options
        self._id = transactional_id
        self._patience_s = patience_s
        self._complaints = Complaints()
        self._refused: list[RefusedMessage] = []
        self._producer = open_producer(
            options,
            self._complaints,
            transactional_id=transactional_id,
            transaction_timeout_ms=int(TRANSACTION_S * 1000),
            **own,
        )
        with self._translated():
            self._repeated(self._producer.init_transactions)

    def begin(self) -> None:
        self._refused.clear()
        with self._translated():
            self._producer.begin_transaction()

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None,
        headers: list[tuple[str, bytes | str | None]] | None = None,
        *,
        partition: int = BY_KEY,
        timestamp_ms: int = NOW,
        tag: int | None = None,
    ) -> None:
        """Add a message to the transaction. It may still be refused until the commit; `tag` tells it then."""
        told = self._on_delivery if tag is None else partial(self._on_delivery, tag=tag)
        while True:
            try:
                self._producer.produce(
                    topic, value, key, partition, on_delivery=told, timestamp=timestamp_ms, headers=headers
                )
                return
            except BufferError:
                self.flush()
            except self._kafka_exception as failed:
                error: KafkaError = failed.args[0]
                if not _is_too_large(error):
                    self._raise(failed)
                self._refused.append(RefusedMessage(error, len(value or b""), tag))
                raise self._message_refused(error) from None

    def flush(self) -> None:
        """Send everything now, and wait until it is confirmed.

        Raises KafkaMessageRefused when a message was refused, and KafkaUnavailable after the patience.
        """
        end = time.monotonic() + self._patience_s
        left = 1
        while left:
            with self._translated():
                left = self._producer.flush(_LOOK_S)
            cause = next((one.error for one in self._refused if not one.is_dropped), None)
            if cause is not None:  # The client itself would try to send the others until the time is over.
                raise self._message_refused(cause)
            if self._refused and not left:
                raise self._message_refused(self._refused[0].error)
            if left and time.monotonic() > end:
                self._raise_away(f"{left} messages are not confirmed after {self._patience_s:g} s")

    @property
    def refused(self) -> list[RefusedMessage]:
        """The messages of the last transaction that Kafka did not take."""
        return self._refused

    def commit(self) -> None:
        """Make the transaction visible.

        After any error drop this producer; the next one with its id settles the transaction when it opens.
        KafkaMessageRefused means that nothing of it becomes visible, and `refused` has the messages. After
        KafkaUnavailable and KafkaProducerLost it may have been committed.
        """
        self.flush()
        with self._translated():
            self._repeated(self._producer.commit_transaction)

    def abort(self) -> None:
        """Nothing of the transaction becomes visible."""
        with self._translated():
            self._repeated(self._producer.abort_transaction)

    def close(self) -> None:
        """Drop the connection. An open transaction ends when the next producer with this id opens."""
        self._complaints.poll = None
        self.__dict__.pop("_producer", None)

    def _on_delivery(self, error: KafkaError | None, message: Message, tag: int | None = None) -> None:
        if error is not None:
            value = message.value()  # Not `len(message)`, which fails where the client has dropped the value.
            self._refused.append(RefusedMessage(error, len(value or b""), tag))

    def _repeated(self, call: Callable[[float], None]) -> None:
        """A call of the client that may be repeated while its failure is transient and there is time."""
        end = time.monotonic() + self._patience_s
        while True:
            try:
                return call(max(_CALL_S, end - time.monotonic()))
            except self._kafka_exception as failed:
                if not failed.args[0].retriable() or time.monotonic() > end:
                    raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._kafka_exception as failed:
            self._raise(failed)
        except SystemError as broken:  # A fatal error while the client called back; Python saw both.
            self._raise(self._hidden_in(broken))

    def _hidden_in(self, broken: SystemError) -> KafkaException:
        cause: BaseException | None = broken
        while cause is not None:
            if isinstance(cause, self._kafka_exception):
                return cause
            cause = cause.__cause__ or cause.__context__
        raise broken

    def _raise(self, failed: KafkaException) -> NoReturn:
        error: KafkaError = failed.args[0]
        if self._is_lost(error):
            raise KafkaProducerLost(self._id, cause=self._options.clean(error.str())) from None
        if error.txn_requires_abort():
            raise self._message_refused(error) from None
        raise translate(self._options, error, complaints=self._complaints) from None

    def _message_refused(self, error: KafkaError) -> DriftQError:
        """The client has no way to go on: the next transaction of this producer would miss numbers."""
        if is_transient_error(error):
            return translate(self._options, error, complaints=self._complaints)
        return KafkaMessageRefused(self._id, cause=self._options.clean(error.str()))

    def _is_lost(self, error: KafkaError) -> bool:
        from confluent_kafka import KafkaError as Code

        lost = (
            Code._FENCED,
            Code._FATAL,
            Code.PRODUCER_FENCED,
            Code.INVALID_PRODUCER_EPOCH,
            Code.INVALID_PRODUCER_ID_MAPPING,
            Code.UNKNOWN_PRODUCER_ID,
        )
        return error.fatal() or error.code() in lost

    def _raise_away(self, cause: str) -> NoReturn:
        last = self._complaints.last()
        told = cause if last is None else f"{cause} ({last.str()})"
        raise KafkaUnavailable(str(self._options.bootstrap), cause=self._options.clean(told))


def _is_too_large(error: KafkaError) -> bool:
    from confluent_kafka import KafkaError as Code

    return error.code() in (Code.MSG_SIZE_TOO_LARGE, Code.INVALID_MSG_SIZE, Code.RECORD_LIST_TOO_LARGE)
