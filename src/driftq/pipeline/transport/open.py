"""The transport that DRIFTQ_TRANSPORT names."""

from __future__ import annotations

from driftq.model.options.pipeline import KAFKA, PipelineOptions
from driftq.pipeline.transport.port import Transport


def open_transport(options: PipelineOptions) -> Transport:
    """Connects at the first call. Raises InvalidArgument where Kafka's servers are not named."""
    if options.transport == KAFKA:
        from driftq.kafka.clients import require_kafka
        from driftq.pipeline.transport.kafka_topics import KafkaTransport

        require_kafka(options.kafka)
        return KafkaTransport(options)
    from driftq.pipeline.transport.driftq_topics import DriftqTransport

    return DriftqTransport(options)
