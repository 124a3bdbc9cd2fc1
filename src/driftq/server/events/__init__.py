"""The event store behind the event loop, with its sealer."""
