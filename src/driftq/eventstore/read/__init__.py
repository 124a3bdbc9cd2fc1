"""Reading events back from SQL and segments, and rebuilding the database from segments."""
