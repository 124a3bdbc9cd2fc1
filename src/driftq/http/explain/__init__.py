"""What happened to a message or a run, over HTTP."""
