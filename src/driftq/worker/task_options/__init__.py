"""What the decorators of jobs declare beyond the function: limit keys and schedules."""
