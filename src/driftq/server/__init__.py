"""The process around the core and the log: a single writer that collects requests, commits, then replies."""
