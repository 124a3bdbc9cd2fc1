"""A bridge: every message of a topic copied once to a topic of the other system, DriftQ or Kafka."""
