"""For the authors of jobs: ways to write one so that running it twice changes nothing the second time."""

from driftq.jobs.patterns import ProcessedTrace, compare_and_set, once, update_if, upsert

__all__ = ["ProcessedTrace", "compare_and_set", "once", "update_if", "upsert"]
