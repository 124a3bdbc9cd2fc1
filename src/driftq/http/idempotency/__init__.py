"""Effects of consumers over HTTP: `/v1/idempotency`."""
