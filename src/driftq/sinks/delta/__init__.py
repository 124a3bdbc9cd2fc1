"""Read models as Delta tables: one commit of the rows table is a whole batch, with its positions.

A commit of Delta can carry *application transactions*: a number under a name, stored with the table. They
hold the writer's epoch, the generation and the position of every partition, so rows and positions move
together. Every commit is at the version that follows the one its writer has read, or it fails: of two writers
one comes second, reads the table again and finds what has changed. See ADR 0026.

    NAME/                   the table that readers open: rows, tombstones too
    NAME/rebuild-3/         a table while rebuild 3 fills it; the swap makes its files those of NAME
    NAME/_driftq_notes/     a table of dead letters, out-of-order events, redrive marks, known partitions

Batches are gathered by Spark's driver: delta-rs merges in one process.
"""

from driftq.sinks.delta.sink import DeltaSink

__all__ = ["DeltaSink"]
