"""The dead-letter topics of the transport that DRIFTQ_TRANSPORT names."""

from __future__ import annotations

from driftq.model.options.pipeline import KAFKA, PipelineOptions
from driftq.pipeline.dead_letters.port import DeadLetterTopics
from driftq.transport.server import PATIENCE_S


def open_dead_letter_topics(options: PipelineOptions, *, patience_s: float = PATIENCE_S) -> DeadLetterTopics:
    """Connects at the first call. Raises InvalidArgument where Kafka's servers are not named."""
    if options.transport == KAFKA:
        from driftq.pipeline.dead_letters.kafka_letters import KafkaDeadLetters

        return KafkaDeadLetters(options.kafka, patience_s=patience_s)
    from driftq.pipeline.dead_letters.driftq_letters import DriftqDeadLetters

    return DriftqDeadLetters(options.url, credentials=options.credentials, patience_s=patience_s)
