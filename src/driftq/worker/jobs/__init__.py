"""Jobs as a caller sees them: their arguments, and the handle that waits for a result."""
