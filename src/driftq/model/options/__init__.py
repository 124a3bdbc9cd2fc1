"""Options of the server and of the pipeline as plain data: nothing here needs a driver or Spark."""
