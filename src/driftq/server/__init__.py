"""The process around the core and the log: one writer that gathers, commits, then answers."""
