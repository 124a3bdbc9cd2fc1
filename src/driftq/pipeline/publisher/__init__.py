"""The publisher: a job that copies events from the log to topics, each once, in the order of the log."""
