"""Running jobs: the driver process, its supervisor, progress, status and metrics."""
