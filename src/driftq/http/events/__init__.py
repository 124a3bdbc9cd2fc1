"""The event store over HTTP."""
