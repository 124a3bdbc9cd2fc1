"""Jobs: enqueued, claimed, settled and shown."""
