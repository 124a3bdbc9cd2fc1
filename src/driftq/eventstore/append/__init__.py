"""Appending events: drafts, the append rule, sequence numbers, one transaction for each batch."""
