"""Logs and traces: the ids of lines and spans, how lines are written, and the way to OpenTelemetry."""
