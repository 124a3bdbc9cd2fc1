"""For authors of jobs: patterns that make a second run of a job change nothing."""

from driftq.jobs.patterns import ProcessedTrace, compare_and_set, once, update_if, upsert

__all__ = ["ProcessedTrace", "compare_and_set", "once", "update_if", "upsert"]
