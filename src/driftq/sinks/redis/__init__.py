"""Read models in Redis and Valkey: one script compares and sets the documents of a hash slot."""

from driftq.sinks.redis.sink import RedisSink

__all__ = ["RedisSink"]
