"""Housekeeping, in a process of its own: snapshots, indexes, compaction, tables, history."""
