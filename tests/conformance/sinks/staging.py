"""What staging looks like from outside: its leftovers, and what a crash does to it."""

from typing import Any

from sqlalchemy import text

from driftq.sinks.parquet import ParquetReadModel
from driftq.sinks.postgres import PostgresReadModel

_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = :schema AND tablename LIKE 'driftq\\_stage\\_%'"


def leftovers(model: Any) -> int:
    """How many staging tables there are, and entries for them. Parquet keeps its files for a while."""
    if isinstance(model, ParquetReadModel):
        return 0
    return len(_stages(model)) + _entries(model)


def empty_staging(model: Any) -> None:
    """As a crash does: of PostgreSQL, which empties unlogged tables, or of a disk that loses files."""
    if isinstance(model, ParquetReadModel):
        for path in model.folder.glob("rows-*.parquet"):
            path.unlink()
        return
    with model.database.transaction() as transaction:
        for stage in _stages(model):
            transaction.connection.execute(text(f'TRUNCATE "{_schema(model)}"."{stage}"'))


def refuse_states(model: PostgresReadModel, *, sqlstate: str) -> None:
    """A trigger on the read model's table that refuses every row with this code."""
    table = f'"{_schema(model)}"."{model.name}__rows"'
    body = f"BEGIN RAISE EXCEPTION 'refused by a trigger' USING ERRCODE = '{sqlstate}'; END"
    with model.database.transaction() as transaction:
        transaction.connection.execute(
            text(f"CREATE FUNCTION pg_temp.refuse() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
        )
        transaction.connection.execute(
            text(
                f"CREATE TRIGGER refuse BEFORE INSERT ON {table} "
                "FOR EACH ROW EXECUTE FUNCTION pg_temp.refuse()"
            )
        )


def _stages(model: PostgresReadModel) -> list[str]:
    with model.database.snapshot() as transaction:
        return [row[0] for row in transaction.connection.execute(text(_TABLES), {"schema": _schema(model)})]


def _entries(model: PostgresReadModel) -> int:
    with model.database.snapshot() as transaction:
        counted = transaction.connection.execute(
            text(f'SELECT count(*) FROM "{_schema(model)}".driftq_stages')
        )
        return int(counted.scalar_one())


def _schema(model: PostgresReadModel) -> str:
    return model.database.renderer.schema
