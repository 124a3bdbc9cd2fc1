"""Topics and groups: created, deleted, reset, and shown."""
