"""The Dockerfile under its linter; compose.yaml under the docker client's parser, where it has one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
HADOLINT = Path(sys.executable).with_name("hadolint")


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run([HADOLINT, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_hadolint_would_find_something(tmp_path: Path) -> None:
    wrong = tmp_path / "Dockerfile"
    text = (DEPLOY / "Dockerfile").read_text()
    wrong.write_text(text.replace("USER 10001:10001", "USER root").replace(":3.13-slim-bookworm", ":latest"))
    done = subprocess.run([HADOLINT, wrong], capture_output=True, text=True, check=False)
    assert {"DL3002", "DL3007"} <= {word for line in done.stdout.splitlines() for word in line.split()}


def test_compose_is_understood(tmp_path: Path) -> None:
    """`docker compose config` needs no engine; where there is no such plugin, tests/docs has its checks."""
    docker = shutil.which("docker")
    if (
        docker is None
        or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode
    ):
        return
    values = ("POSTGRES_PASSWORD", "S3_ACCESS_KEY", "S3_SECRET_KEY", "DRIFTQ_METRICS_KEY", "GRAFANA_PASSWORD")
    environment = tmp_path / "env"
    environment.write_text("".join(f"{name}=x\n" for name in values))
    command = [docker, "compose", "--env-file", str(environment), "-f", str(DEPLOY / "compose.yaml")]
    done = subprocess.run([*command, "config", "--quiet"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
