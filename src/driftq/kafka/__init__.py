"""Kafka's clients as DriftQ uses them: opened from `KafkaOptions`, with our own errors.

The client library, `confluent-kafka`, comes with the extra `[kafka]` and is imported when a client is opened.
"""
