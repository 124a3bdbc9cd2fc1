"""Sealing: positions in the log, segments on object storage, compaction."""
