"""Producing: messages wait for a turn, are prepared and decided together, and are stored once."""
