"""Topics as a Spark sink: each row once, however often a micro-batch is repeated."""
