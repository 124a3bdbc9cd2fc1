"""Databases that commands open without a server: the registry's, and those to upgrade."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from driftq.cli.screen import say_error
from driftq.errors import DriftQError, SchemaError
from driftq.settings import Settings

if TYPE_CHECKING:
    from driftq.sql import Database

Data = Annotated[
    str | None,
    typer.Option("--data", metavar="DIR", help="The folder (else DRIFTQ_DATA, else ./driftq-data)."),
]


def require_folder(data: str | None) -> None:
    """Exit with code 1 if the named folder is missing: commands that only read create nothing."""
    if data is not None and not os.path.isdir(data):
        say_error(f"there is no folder {data}; --data names the folder of a server")
        raise typer.Exit(1)


def registry_file(data: str) -> str:
    """The registry's SQLite file, used without a database address."""
    return os.path.join(data, "pipeline", "registry.db")


@contextmanager
def opened(settings: Settings, file: str) -> Iterator[Database]:
    """The configured database, else this file; errors become a line and exit code 1."""
    if importlib.util.find_spec("sqlalchemy") is None:
        say_error("this needs SQLAlchemy: install driftq[sqlite]")
        raise typer.Exit(1)
    from driftq.sql import open_database
    from driftq.sql.sqlite import SqliteDatabase

    try:
        url = settings.events.database_url
        schemas = {"sequence": settings.events.sequence_schema}
        database = SqliteDatabase(file) if url is None else open_database(url, schemas=schemas)
        try:
            yield database
        finally:
            database.close()
    except (DriftQError, SchemaError) as problem:
        say_error(str(problem))
        raise typer.Exit(1) from None
