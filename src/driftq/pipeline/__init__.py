"""The data pipeline on Spark: the only room that imports pyspark, and only when asked for a session."""
