"""`--sink` on the command line: which read model a command opens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driftq.pipeline.projection.definition import LATEST, Projection
from driftq.pipeline.runtime.reports import secrets_of
from driftq.settings import load_settings
from driftq.sinks import Application, Change, ParquetSink, ReadModelSink, SqliteSink
from tests.unit.cli.conftest import Run

OWN = "from driftq.sinks import SqliteSink\nsink = SqliteSink('{path}')\n"


def fill(sink: ReadModelSink, state: str) -> None:
    model = sink.connect("latest")
    model.apply(Application(changes=[Change("order", "o-1", 3, "e-3", f'"{state}"')]), model.take_over())
    model.close()


def row(state: str) -> dict[str, object]:
    return {"aggregate_type": "order", "aggregate_id": "o-1", "sequence_number": 3, "state": state}


def test_rows_of_any_sink_are_the_same_lines(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "my_target.py").write_text(OWN.format(path=folder / "own.db"))
    monkeypatch.syspath_prepend(str(folder))
    targets: dict[str, ReadModelSink] = {
        f"sqlite:///{folder}/flag.db": SqliteSink(f"{folder}/flag.db"),
        f"parquet://{folder}/files": ParquetSink(f"{folder}/files"),
        "my_target:sink": SqliteSink(f"{folder}/own.db"),
    }
    for address, sink in targets.items():
        fill(sink, address)
        said = run("pipeline", "rows", "latest", "--sink", address, "--json")
        assert json.loads(said.stdout) == row(address)


def test_the_flag_counts_before_the_setting_and_that_before_the_default(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "driftq-data" / "pipeline").mkdir(parents=True)
    fill(SqliteSink(f"{folder}/driftq-data/pipeline/read_models.db"), "default")
    fill(SqliteSink(f"{folder}/set.db"), "setting")
    fill(SqliteSink(f"{folder}/flag.db"), "flag")
    rows = ["pipeline", "rows", "latest", "--json"]
    assert json.loads(run(*rows).stdout) == row("default")
    monkeypatch.setenv("DRIFTQ_SINKS", f"sqlite:///{folder}/set.db")
    assert json.loads(run(*rows).stdout) == row("setting")
    assert json.loads(run(*rows, "--sink", f"sqlite:///{folder}/flag.db").stdout) == row("flag")


def test_a_command_decides_for_every_projection_and_the_setting_for_those_without_a_sink() -> None:
    settings = load_settings(environ={"DRIFTQ_SINKS": "sqlite:///set.db parquet:///set"})
    own = Projection("own", topic="events.order", sink=SqliteSink("own.db"))
    given = settings.pipeline(sinks=["sqlite:///flag.db"])
    assert own.targets(given) == LATEST.targets(given) == (SqliteSink("flag.db"),)
    assert own.targets(settings.pipeline()) == (SqliteSink("own.db"),)
    assert LATEST.targets(settings.pipeline()) == (SqliteSink("set.db"), ParquetSink("/set"))


@pytest.mark.parametrize(
    "words",
    [
        ["pipeline", "run", "projection", "--sink", "reddis://me:hunter2@h"],
        ["pipeline", "rows", "latest", "--sink", "reddis://me:hunter2@h"],
        ["dlq", "redrive", "events.order", "--sink", "reddis://me:hunter2@h"],
    ],
)
def test_a_wrong_sink_is_refused_before_anything_runs(run: Run, folder: Path, words: list[str]) -> None:
    done = run(*words)
    assert done.exit_code == 2
    said = " ".join(done.stderr.replace("│", " ").split())
    assert "--sink: there is no sink reddis://; did you mean redis://?" in said
    assert "hunter2" not in done.output


def test_a_run_without_projections_has_no_use_for_a_sink(run: Run, folder: Path) -> None:
    done = run("pipeline", "run", "publisher", "--sink", "sqlite:///a.db")
    assert (done.exit_code, "--sink is for projections" in done.stderr) == (2, True)


@pytest.mark.clause("Y4")
def test_passwords_of_sinks_are_cleaned_from_what_a_driver_reports() -> None:
    settings = load_settings(environ={"DRIFTQ_SINKS": "redis://:first%21@h/0"})
    options = settings.pipeline(sinks=["opensearch+http://me:second@h:9200/p?api_key=third&x=4"])
    assert set(secrets_of(options)) == {"first%21", "first!", "second", "third"}
    assert "third" not in repr(options)
