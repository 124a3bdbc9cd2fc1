"""What the drivers of the pipeline report, over HTTP."""
