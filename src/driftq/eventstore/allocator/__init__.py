"""The table on PostgreSQL from which sequence numbers are reserved, in a schema of its own."""
