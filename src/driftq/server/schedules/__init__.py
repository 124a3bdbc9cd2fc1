"""Schedules: set, fired and shown."""
