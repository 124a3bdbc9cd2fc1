"""Opening Kafka's clients: one place for addresses, security and the options that guarantees rest on.

A client connects in the background and reports why it cannot, such as a wrong password, only beside the call
that then times out. `Complaints` remembers it for the error of that call.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from driftq.errors import InvalidArgument
from driftq.model.options.kafka import KafkaOptions, variable_name

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import KafkaError

HOW_TO_GET_CLIENT = "pip install 'driftq[kafka]'"
QUEUE_MESSAGES = 200_000
"""Messages that a producer holds at most."""
BATCH_BYTES = 1_000_000
MESSAGE_BYTES_MAX = 1_000_000_000
"""The most that the client can send: what is too large is for the servers to say."""

_RENAMED = {"log.level": "log_level"}
"""The one option that librdkafka spells without a dot."""
_NO_PROPERTY = re.compile(r'No such configuration property: "([^"]+)"')
_PROPERTY = re.compile(r'[Cc]onfiguration property "([^"]+)"')
_PRODUCER_ONLY = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",
    "message.max.bytes": MESSAGE_BYTES_MAX,
    "batch.size": BATCH_BYTES,
    "batch.num.messages": 10_000,
    "queue.buffering.max.messages": QUEUE_MESSAGES,
    "queue.buffering.max.kbytes": 1 << 20,
    "linger.ms": 20,
    "delivery.report.only.error": True,
}
"""`murmur2_random` is the Java client's choice of a partition, so both send a key to the same one."""
_FETCHED = {
    "max.partition.fetch.bytes": 4 << 20,
    "queued.min.messages": 10_000,
    "queued.max.messages.kbytes": 32 << 10,
    "fetch.queue.backoff.ms": 5,
}
"""Held ahead of the reader: what is held when it ends was fetched in vain."""


class Complaints:
    """The errors that a client reports in the background, of which the newest telling one is remembered."""

    def __init__(self) -> None:
        self._last: KafkaError | None = None
        self.poll: Callable[[float], object] | None = None
        """Lets the client report; set for clients that do not report by themselves."""

    def __call__(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError

        vague = error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)
        if self._last is None or not vague:
            self._last = error

    def last(self) -> KafkaError | None:
        if self.poll is not None:
            self.poll(0)
        return self._last


def require_kafka(options: KafkaOptions) -> str:
    """The addresses of the servers; raises InvalidArgument where they, or the client library, are missing."""
    import importlib.util

    if options.bootstrap is None:
        raise InvalidArgument("DRIFTQ_KAFKA_BOOTSTRAP", "name the Kafka servers, like host:9092")
    if importlib.util.find_spec("confluent_kafka") is None:
        raise InvalidArgument("DRIFTQ_TRANSPORT", f"Kafka needs confluent-kafka: {HOW_TO_GET_CLIENT}")
    return options.bootstrap


def open_admin(options: KafkaOptions, complaints: Complaints) -> AdminClient:
    config = client_config(options) | {"error_cb": complaints}
    from confluent_kafka.admin import AdminClient

    admin: AdminClient = _opened(AdminClient, options, config)
    complaints.poll = admin.poll
    return admin


def open_consumer(options: KafkaOptions, complaints: Complaints, *, strict: bool = False) -> Consumer:
    """A consumer of committed messages that joins no group: assign it partitions.

    If `strict`, it reports an offset that is not kept; else it goes on with the oldest message.
    """
    own = {
        "group.id": "driftq",  # Required, and never used: nothing subscribes, nothing is committed.
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error" if strict else "earliest",
        "fetch.wait.max.ms": 50,  # It reads short topics to their end, and waits for nothing new.
        "error_cb": complaints,
    }
    config = _FETCHED | client_config(options) | own
    from confluent_kafka import Consumer

    return _opened(Consumer, options, config)  # type: ignore[no-any-return]


def open_producer(options: KafkaOptions, complaints: Complaints, **own: Any) -> Producer:
    """An idempotent producer; `own` are options of this one, with `_` for dots."""
    settled = {name.replace("_", "."): value for name, value in own.items()}
    given = client_config(options)
    config = _PRODUCER_ONLY | given | settled | {"error_cb": complaints}
    from confluent_kafka import Producer

    producer: Producer = _opened(Producer, options, config)
    complaints.poll = producer.poll
    return producer


def client_config(options: KafkaOptions) -> dict[str, Any]:
    """What every client gets."""
    bootstrap = require_kafka(options)
    given = {_RENAMED.get(name, name): value for name, value in options.options}
    return {"log_level": 2, "client.id": "driftq", **given, "bootstrap.servers": bootstrap}


def _opened(kind: Any, options: KafkaOptions, config: dict[str, Any]) -> Any:
    """The client; raises InvalidArgument naming the variable of an option that it refuses."""
    from confluent_kafka import KafkaException

    try:
        return kind(config, logger=logging.getLogger("driftq.kafka"))
    except KafkaException as refused:
        raise _bad_option(options, str(refused.args[0].str())) from None
    except (TypeError, ValueError) as refused:
        raise _bad_option(options, str(refused)) from None


def _bad_option(options: KafkaOptions, said: str) -> InvalidArgument:
    if unknown := _NO_PROPERTY.search(said):
        return InvalidArgument(variable_name(unknown[1]), f"Kafka's client has no option {unknown[1]}")
    sentence = options.clean(said).strip().removeprefix("Failed to create producer: ")
    named = _PROPERTY.search(said)
    given = named is not None and named[1] in dict(options.options)
    variable = variable_name(named[1]) if named is not None and given else "DRIFTQ_KAFKA_*"
    return InvalidArgument(variable, f"Kafka's client refuses it: {sentence}")
