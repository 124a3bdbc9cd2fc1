"""Jobs: claimed by priority and age, on the same log as messages."""
