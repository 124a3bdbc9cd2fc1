"""Schedules: jobs that the broker enqueues at the times of a cron expression."""
