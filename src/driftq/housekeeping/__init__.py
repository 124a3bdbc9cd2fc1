"""The work beside the server, in a process of its own: snapshots, indexes, old segments, tables, history."""
