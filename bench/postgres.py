"""A PostgreSQL of the benchmark's own, in the state of one that has run for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.services_postgres import PostgresServer

_SEGMENTS = 24


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a server with its own defaults, so fsync and synchronous_commit are on."""
    server = PostgresServer(fsync=True)
    try:
        _use_the_journal(server.url)
        yield server.url
    finally:
        server.remove()


def _use_the_journal(url: str) -> None:
    """Fill some files of the write-ahead log and free them.

    From its first checkpoint on a server renames such files and uses them again. One that is a second old
    would have to write 16 MiB of zeros for each in the middle of somebody's commit.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(_SEGMENTS):
            connection.execute("SELECT pg_logical_emit_message(true, 'bench', '')")
            connection.execute("SELECT pg_switch_wal()")
        connection.execute("CHECKPOINT")
