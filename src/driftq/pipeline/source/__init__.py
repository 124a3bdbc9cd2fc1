"""Topics and the event log as Spark sources: ranges that return the same rows however often they are read."""
