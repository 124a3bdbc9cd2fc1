"""PostgreSQL, files and folders that cannot hold a read model: one sentence each, and no password in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from driftq.errors import (
    DatabaseDamaged,
    DatabaseUnavailable,
    DatabaseUnsuitable,
    InvalidArgument,
    ReadModelUnavailable,
)
from driftq.sinks import open_sink
from driftq.sql.postgres import require_version
from tests.services_postgres import PostgresServer

SECRET = "hunter2"


def refused(address: str, kind: type[Exception] = DatabaseUnavailable) -> str:
    """What a run with this target is told."""
    with pytest.raises(kind) as problem, closing(open_sink(address).connect("orders")) as model:
        model.take_over()
    said = str(problem.value)
    assert SECRET not in said
    assert "\n" not in said
    return said


@pytest.fixture
def asks_for_passwords(private_postgres: PostgresServer) -> str:
    """Host and port of a server that believes only its superuser."""
    with psycopg.connect(private_postgres.url, autocommit=True) as admin:
        admin.execute("CREATE ROLE kim LOGIN PASSWORD 'right'")
        [rules] = admin.execute("SHOW hba_file").fetchone() or ()
        rows = "('host all driftq all trust'), ('host all all all scram-sha-256')"
        admin.execute(f"COPY (VALUES {rows}) TO '{rules}'")
        admin.execute("SELECT pg_reload_conf()")
    return f"127.0.0.1:{private_postgres.port}"


@pytest.mark.clause("V2", "Y4")
def test_what_is_wrong_with_postgresql_is_said_in_a_sentence(asks_for_passwords: str) -> None:
    at = asks_for_passwords
    wrong = refused(f"postgresql://kim:{SECRET}@{at}/postgres")
    assert wrong.endswith('password authentication failed for user "kim"): check user and password')
    assert refused(f"postgresql://kim@{at}/postgres").endswith("put user:password@ before the host")
    absent = refused(f"postgresql://driftq:{SECRET}@{at}/none")
    assert absent.endswith('database "none" does not exist): create it, or correct the address')
    assert "check sslmode" in refused(f"postgresql://kim:{SECRET}@{at}/postgres?sslmode=require")
    assert refused(f"postgresql://kim@no-such-host.invalid/x?password={SECRET}").endswith(": check the host")
    option = refused(f"postgresql://kim:{SECRET}@{at}/postgres?nonsense=1", InvalidArgument)
    assert option.endswith('cannot be used: invalid connection option "nonsense"')
    rights = refused(f"postgresql://kim:right@{at}/postgres", InvalidArgument)
    assert "(permission denied for database postgres): grant it CREATE on the database" in rights


@pytest.mark.clause("V2")
def test_a_postgresql_that_is_too_old_is_told_which_one_is_needed() -> None:
    with pytest.raises(DatabaseUnsuitable, match="PostgreSQL is 14, and 15 or newer is needed"):
        require_version("postgresql://db/shop", 14)


@pytest.mark.clause("V2")
def test_a_file_that_is_no_database_is_said_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("no database, and longer than the header of one " * 50)
    assert refused(f"sqlite:///{file}", DatabaseDamaged).endswith(
        "(file is not a database): name another file"
    )
    for place in (tmp_path, file / "rows.db"):
        assert refused(f"sqlite:///{place}").endswith("): name a file in a folder that this user may write")


@pytest.mark.clause("V2")
@pytest.mark.parametrize("within", [lambda file: file, lambda file: file / "rows"])
def test_a_folder_that_is_none_is_said_in_a_sentence(tmp_path: Path, within: Callable[[Path], Path]) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    said = refused(f"parquet://{os.fspath(within(file))}", ReadModelUnavailable)
    assert said.endswith("': name a folder that this user may write)")
