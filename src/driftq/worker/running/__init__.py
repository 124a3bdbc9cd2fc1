"""What workers of messages and of jobs share while they run: the client's loop, and hooks."""
