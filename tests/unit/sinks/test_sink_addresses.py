"""Addresses of sinks: which sink they name, and what a wrong one is told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from driftq.errors import InvalidArgument, ReadModelNotFound
from driftq.model.options.sink_addresses import SINK_SCHEMES, is_sink_address
from driftq.settings import SettingsRefused, load_settings
from driftq.sinks import ParquetSink, PostgresSink, SqliteSink, open_sink
from driftq.sinks.urls import SCHEMES

OWN = """
from driftq.sinks import SqliteSink

shelf = SqliteSink("shelf.db")

def make():
    return SqliteSink("made.db")

def broken():
    raise RuntimeError("no disk")

number = 7
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_shelves.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(
    ("address", "sink"),
    [
        ("sqlite:///models.db", SqliteSink("models.db")),
        ("sqlite:////srv/my%20models.db", SqliteSink("/srv/my models.db")),
        ("parquet:///srv/models", ParquetSink("/srv/models")),
        ("parquet:////srv/models", ParquetSink("/srv/models")),
        ("postgresql://u:p@h,g:5433/d", PostgresSink("postgresql://u:p@h,g:5433/d")),
        ("postgres://u@h/d", PostgresSink("postgres://u@h/d")),
    ],
)
def test_an_address_names_a_sink(address: str, sink: Any) -> None:
    assert open_sink(address) == sink
    assert is_sink_address(address)


@pytest.mark.clause("V9")
@pytest.mark.usefixtures("own_module")
def test_a_sink_of_the_users_own_is_an_object_or_what_a_function_makes() -> None:
    assert open_sink("my_shelves:shelf") == SqliteSink("shelf.db")
    assert open_sink("my_shelves:make") == SqliteSink("made.db")


@pytest.mark.usefixtures("own_module")
@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("my_shelves:number", "my_shelves:number is a int without `connect`"),
        ("my_shelves:nothing", "module 'my_shelves' has no 'nothing'"),
        ("my_shelves:broken", "my_shelves:broken() raised RuntimeError: no disk"),
        ("my_cellar:shelf", "needs the module 'my_cellar'"),
        ("reddis://me:hunter2@host", "there is no sink reddis://; did you mean redis://? "),
        ("mongodb://me:hunter2@host", "There are sqlite:///file.db, postgresql://"),
        ("sqlite://models.db", "write the address as sqlite:///file.db"),
        ("parquet://host/models", "write the address as parquet:///folder"),
        ("postgresql://me:hunter2@host", "write the address as postgresql://user:password@host/name"),
        ("postgresql://me:hunter2@host:none/db", "write the address as postgresql://user:password@host/name"),
        ("hunter2", "is no address"),
    ],
)
def test_a_wrong_address_is_refused_without_its_password(address: str, problem: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        open_sink(address)
    assert problem in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("scheme", [name for name, known in SCHEMES.items() if known.extra])
def test_a_missing_package_is_said_with_its_remedy(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in SCHEMES[scheme].packages:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InvalidArgument, match=rf"pip install 'driftq\[{SCHEMES[scheme].extra}\]'") as refused:
        open_sink(f"{scheme}://me:hunter2@host/x")
    assert "hunter2" not in str(refused.value)


def test_looking_for_a_read_model_creates_no_file(tmp_path: Path) -> None:
    with pytest.raises(ReadModelNotFound):
        SqliteSink(f"{tmp_path}/absent.db").find("orders")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.clause("N1")
def test_the_setting_holds_several_addresses_and_names_itself_when_it_is_wrong() -> None:
    environ = {"DRIFTQ_SINKS": "sqlite:////a.db   my_shelves:shelf"}
    options = load_settings(environ=environ).pipeline()
    assert (options.sinks, options.default_sinks) == ((), ("sqlite:////a.db", "my_shelves:shelf"))
    for wrong in ("", "a.db", "sqlite:////a.db mongodb://me:hunter2@host"):
        with pytest.raises(SettingsRefused, match="DRIFTQ_SINKS") as refused:
            load_settings(environ={"DRIFTQ_SINKS": wrong})
        assert "hunter2" not in str(refused.value)


def test_every_scheme_that_a_setting_may_name_has_a_sink() -> None:
    assert set(SCHEMES) == set(SINK_SCHEMES)
