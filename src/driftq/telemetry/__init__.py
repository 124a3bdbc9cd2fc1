"""Logs and traces: the ids that lines and spans carry, how lines are written, and the way to OpenTelemetry."""
