"""Which Java there is, and what is said when there is none that Spark runs on."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from driftq.errors import SparkUnusable
from driftq.pipeline.spark.java import Java, Means, find_java, read_release, require_spark
from driftq.pipeline.spark.session import python_path, session_settings
from driftq.settings import load_settings


def a_java(folder: Path, version: str) -> Path:
    """A home of a Java that says it is of this version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2030-01-01' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.mark.clause("Z1")
@pytest.mark.parametrize(
    ("said", "release"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("no java here", None),
    ],
)
def test_the_release_is_read_from_what_java_says(said: str, release: int | None) -> None:
    assert read_release(said) == release


@pytest.mark.clause("Z1")
def test_an_old_java_or_none_is_told_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "old", "1.8.0_392")))
    assert find_java() == Java(str(tmp_path / "old" / "bin" / "java"), 8)
    with pytest.raises(SparkUnusable, match="is Java 8: install Java 17 or newer"):
        require_spark()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(SparkUnusable, match="there is none here: install Java 17"):
        require_spark()
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "new", "21.0.1")))
    require_spark()
    assert str(Means(None, None).problem) == "pyspark is not installed: pip install 'driftq[spark]'"


@pytest.mark.clause("Z1")
def test_set_up_goes_on_where_java_is_missing_and_says_so(tmp_path: Path) -> None:
    script = Path(__file__).parents[3] / "scripts" / "java.sh"
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    env = {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "JAVA_HOME": str(a_java(tmp_path / "old", "11.0.2")),
    }
    done = subprocess.run(["sh", script], env=env, capture_output=True, text=True, check=True)
    assert "Java 17 or newer is missing" in done.stdout
    env["JAVA_HOME"] = str(a_java(tmp_path / "new", "17.0.1"))
    assert subprocess.run(["sh", script], env=env, capture_output=True, text=True, check=True).stdout == ""


@pytest.mark.clause("Z1")
def test_a_session_runs_here_by_default_and_anywhere_unchanged(tmp_path: Path) -> None:
    options = load_settings().pipeline(data=str(tmp_path))
    here = session_settings(options, master="local[*]")
    there = session_settings(options, master="spark://elsewhere:7077")
    assert here["spark.sql.session.timeZone"] == there["spark.sql.session.timeZone"] == "UTC"
    assert 2 <= int(here["spark.sql.shuffle.partitions"]) <= 4
    assert "spark.driver.host" not in there
    assert str(Path(__file__).parents[3] / "src") in python_path().split(os.pathsep)
