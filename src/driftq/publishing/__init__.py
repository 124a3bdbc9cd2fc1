"""Publishing without Spark: lanes, positions, checkpoint and fencing, shared by both publishers."""
