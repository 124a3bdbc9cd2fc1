"""A user's app: its handlers and projections, its file, and the jobs of a name."""
