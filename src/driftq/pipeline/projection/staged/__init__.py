"""Projections whose rows are folded and written by Spark's tasks: the driver gets reports alone."""
