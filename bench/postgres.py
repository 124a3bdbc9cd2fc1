"""A PostgreSQL of the benchmark's own, in the state of one that has run for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.services_postgres import PostgresServer

_SEGMENTS = 24
BULK_SEGMENTS = 160
BULK = {"shared_buffers": "1GB", "min_wal_size": "3GB", "max_wal_size": "6GB", "checkpoint_timeout": "15min"}
"""For millions of rows at once. The defaults suit a machine with 1 GB of memory."""


@contextmanager
def postgres(*, bulk: bool = False) -> Iterator[str]:
    """The address of a server with fsync and synchronous_commit, and its other defaults unless `bulk`."""
    server = PostgresServer(fsync=True, settings=BULK if bulk else None)
    try:
        _use_the_journal(server.url, segments=BULK_SEGMENTS if bulk else _SEGMENTS)
        yield server.url
    finally:
        server.remove()


def _use_the_journal(url: str, *, segments: int) -> None:
    """Fill some files of the write-ahead log and free them.

    From its first checkpoint on a server renames such files and uses them again. One that is a second old
    would have to write 16 MiB of zeros for each in the middle of somebody's commit.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(segments):
            connection.execute("SELECT pg_logical_emit_message(true, 'bench', '')")
            connection.execute("SELECT pg_switch_wal()")
        connection.execute("CHECKPOINT")
