"""The files in deploy/: they name settings, files and users that exist, and the tools at hand accept them."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from driftq.settings import load_settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
UNIT = (DEPLOY / "driftq.service").read_text()
MADE_ELSEWHERE = {"grafana.json", "alerts.yaml"}
"""Mounted by compose.yaml and written with the metrics."""


def settings_in(text: str) -> set[str]:
    return set(re.findall(r"\bDRIFTQ_[A-Z0-9_]+(?=[=:])", text))


def test_every_setting_in_the_files_exists() -> None:
    known = {setting.spec.name for setting in load_settings(environ={}).in_force}
    compose = settings_in((DEPLOY / "compose.yaml").read_text())
    for named in (settings_in(DOCKERFILE), settings_in(UNIT), compose):
        assert named
        assert named <= known


def test_the_image_runs_as_a_user_of_its_own_on_a_volume_with_a_health_check() -> None:
    stages = re.split(r"(?m)^FROM ", DOCKERFILE)[1:]
    assert all("slim" in stage.splitlines()[0] for stage in stages)
    final = stages[-1]
    [user] = re.findall(r"(?m)^USER (\d+):(\d+)$", final)
    assert "0" not in user
    assert f"--uid {user[0]} " in final
    assert final.index("\nUSER ") < final.index("ENTRYPOINT")
    for line in ("VOLUME /data", "HEALTHCHECK", 'ENTRYPOINT ["driftq"]', 'CMD ["serve"]'):
        assert line in final
    for source in re.findall(r"(?m)^COPY (?!--from)(.+) \S+$", DOCKERFILE):
        for name in source.split():
            assert (ROOT / name).exists(), name


def test_the_services_of_compose_fit_together() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"driftq", "upgrade", "postgres", "s3", "prometheus", "grafana"}
    for name, service in services.items():
        needed = service.get("depends_on", [])
        assert set(needed) <= set(services), name
        assert "latest" not in service["image"]
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), "keys and TLS come before other addresses"
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("./"):
                assert (DEPLOY / source).exists() or Path(source).name in MADE_ELSEWHERE, source
            else:
                assert source in COMPOSE["volumes"]
        for secret in service.get("secrets", []):
            assert secret in COMPOSE["secrets"]
    assert services["driftq"]["read_only"] is True
    assert COMPOSE["services"]["upgrade"]["command"] == ["db", "upgrade"]


def test_no_password_stands_in_a_file() -> None:
    for service in COMPOSE["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|KEY", name):
                assert re.fullmatch(r"\$\{[A-Z0-9_]+:\?set it\}", value), name
    assert (
        "${POSTGRES_PASSWORD:?set it}" in COMPOSE["services"]["driftq"]["environment"]["DRIFTQ_DATABASE_URL"]
    )
    config = COMPOSE["configs"]["s3-config"]["content"]
    [identity] = json.loads(config)["identities"]
    assert identity["credentials"] == [
        {"accessKey": "${S3_ACCESS_KEY:?set it}", "secretKey": "${S3_SECRET_KEY:?set it}"}
    ]


def test_prometheus_scrapes_the_server_with_a_key() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    [job] = config["scrape_configs"]
    assert job["metrics_path"] == "/v1/metrics"
    assert job["static_configs"][0]["targets"] == ["driftq:8080"]
    assert job["authorization"]["credentials_file"] == "/run/secrets/driftq-metrics-key"
    assert COMPOSE["services"]["prometheus"]["secrets"] == ["driftq-metrics-key"]


def test_grafana_is_provisioned_with_the_dashboard() -> None:
    folder = DEPLOY / "grafana/provisioning"
    [provider] = yaml.safe_load((folder / "dashboards/driftq.yaml").read_text())["providers"]
    mounted = [volume.split(":")[1] for volume in COMPOSE["services"]["grafana"]["volumes"]]
    assert any(path.startswith(provider["options"]["path"]) for path in mounted)
    [source] = yaml.safe_load((folder / "datasources/prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"


def test_the_unit_is_hardened_and_systemd_accepts_it(tmp_path: Path) -> None:
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(UNIT)
    service = dict(parsed["Service"])
    assert (service["User"], service["NoNewPrivileges"], service["ProtectSystem"]) == (
        "driftq",
        "yes",
        "strict",
    )
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    unit = tmp_path / "driftq.service"
    program = tmp_path / "driftq"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit.write_text(UNIT.replace("/opt/driftq/bin/driftq", str(program)))
    done = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if "driftq" in line]
    assert complaints == [], done.stderr
    rated = subprocess.run(
        [analyze, "security", "--offline=yes", "--threshold=30", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert rated.returncode == 0, rated.stdout


@pytest.mark.parametrize("file", sorted(path.name for path in DEPLOY.iterdir() if path.is_file()))
def test_each_file_says_what_it_is_for(file: str) -> None:
    if file not in MADE_ELSEWHERE:
        assert (DEPLOY / file).read_text().startswith("# ")
