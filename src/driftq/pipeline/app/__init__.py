"""A user's app: what it registers, the file it stands in, and the jobs that a name stands for."""
