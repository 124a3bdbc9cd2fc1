"""The start of a publisher on either transport: it takes over from every other one of the same log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from driftq.errors import EventStoreUnusable
from driftq.eventstore.opening import open_event_objects
from driftq.model.options.pipeline import KAFKA, PipelineOptions
from driftq.publishing.checkpoint import CheckpointStore
from driftq.publishing.kafka.run import KafkaRun, begin_on_kafka
from driftq.publishing.resume import begin
from driftq.publishing.run import PublisherRun
from driftq.transport.server import Server

ToDriftq = TypeVar("ToDriftq", bound=PublisherRun)
ToKafka = TypeVar("ToKafka", bound=KafkaRun)


def begin_run(
    options: PipelineOptions,
    *,
    remembered: Iterable[tuple[int, str]] = (),
    to_driftq: Callable[..., ToDriftq],
    to_kafka: Callable[..., ToKafka],
) -> ToDriftq | ToKafka:
    """A run of the given kind: every older publisher of this log is fenced from here on."""
    objects = open_event_objects(options.events)
    if objects is None:
        raise EventStoreUnusable("the publisher needs the event log's segments: install driftq[s3]")
    if options.transport == KAFKA:
        return begin_on_kafka(options, objects, remembered=remembered, make=to_kafka)
    store = CheckpointStore(objects)
    server = Server(options.url, credentials=options.credentials)
    try:
        resume = begin(store, server, options.publisher, remembered=remembered)
    finally:
        server.close()
    return to_driftq(options, store, resume, remembered=remembered)
