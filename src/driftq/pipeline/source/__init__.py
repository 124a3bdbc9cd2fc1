"""Topics and the event log as Spark sources: ranges that give the same rows however often they are read."""
