"""Messages over HTTP: produce, append, consume, settle, read."""
