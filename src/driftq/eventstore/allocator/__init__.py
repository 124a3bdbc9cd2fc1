"""The table from which sequence numbers are reserved; on PostgreSQL it lives in a schema of its own."""
