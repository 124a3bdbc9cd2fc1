"""Appending events: drafts, the append rule, sequence numbers, one transaction a batch."""
