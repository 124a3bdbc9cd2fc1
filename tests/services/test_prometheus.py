"""Prometheus itself scrapes a server, loads the alert rules and understands the dashboard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driftq.http.system.families import FAMILIES
from driftq.pipeline.runtime.metrics import as_text
from driftq.pipeline.runtime.status import JobStatus, PipelineJobState
from tests.harness import ServerProcess
from tests.services_prometheus import Prometheus, promtool, running_prometheus
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "alerts.yaml"
DASHBOARD = json.loads((ROOT / "deploy" / "grafana.json").read_text())
_NAME = re.compile(r"\b((?:driftq|process)_[a-z_]+|up)\b")

FIRING = """
rule_files: [{alerts}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'driftq_dead_letters{{topic="orders",instance="a"}}'
        values: '0x15 1x5 3x10'
      - series: 'up{{job="driftq",instance="a"}}'
        values: '1x5 0x30'
      - series: 'driftq_queue_oldest_age_seconds{{queue="mail"}}'
        values: '0x5 400x30'
      - series: 'driftq_registry_claims{{state="unknown"}}'
        values: '0x5 2x30'
      - series: 'driftq_steps_unknown'
        values: '0x5 3x30'
      - series: 'driftq_outbox_parked{{outbox="outbox-shop"}}'
        values: '0x5 4x30'
    alert_rule_test:
      - eval_time: 10m
        alertname: DriftQDeadLettersGrowing
        exp_alerts: []
      - eval_time: 22m
        alertname: DriftQDeadLettersGrowing
        exp_alerts:
          - exp_labels: {{severity: warning, topic: orders, instance: a}}
            exp_annotations:
              summary: "Topic orders has {grown} new dead letters."
              description: "driftq dlq list orders shows why; driftq dlq redrive sends them back."
      - eval_time: 20m
        alertname: DriftQDown
        exp_alerts:
          - exp_labels: {{severity: critical, job: driftq, instance: a}}
            exp_annotations:
              summary: "The DriftQ server a does not answer."
              description: "Look at its log and at its process; clients repeat their requests meanwhile."
      - eval_time: 8m
        alertname: DriftQJobsWait
        exp_alerts: []
      - eval_time: 20m
        alertname: DriftQUnknownClaims
        exp_alerts:
          - exp_labels: {{severity: warning, state: unknown}}
            exp_annotations:
              summary: "2 effects of handlers are unknown."
              description: "driftq registry list --state unknown names them; check each one and resolve it."
      - eval_time: 20m
        alertname: DriftQUnknownSteps
        exp_alerts:
          - exp_labels: {{severity: warning}}
            exp_annotations:
              summary: "3 steps of runs are unknown."
              description: "The dashboard's page runs names them; check each one and resolve it."
      - eval_time: 20m
        alertname: DriftQOutboxParked
        exp_alerts:
          - exp_labels: {{severity: warning, outbox: outbox-shop}}
            exp_annotations:
              summary: "outbox-shop has 4 parked rows."
              description: "driftq outbox list shows why; driftq outbox retry sends them again."
"""


def expressions() -> Iterator[tuple[str, str]]:
    """Title and query of each panel, with Grafana's variables filled in."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            expr = target["expr"].replace("$__rate_interval", "1m").replace('"$instance"', '".+"')
            yield panel["title"], expr


def names_used() -> set[str]:
    texts = [expr for _, expr in expressions()]
    texts += re.findall(r"expr: (.*)", ALERTS.read_text())
    return {name for text in texts for name in _NAME.findall(text)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with a topic, a dead letter, jobs and a consumer."""
    with ServerProcess(tmp_path_factory.mktemp("scraped") / "data") as started:
        client = started.client()
        client.post("/v1/topics", {"name": "orders"})
        client.post("/v1/jobs", {"queue": "mail", "task": "send", "payload": 1})
        for value in ("one", "two"):
            client.post(
                "/v1/produce",
                {"topic": "orders", "value": value, "envelope": {"retry_policy": {"max_attempts": 1}}},
            )
        stream = started.stream("orders", "billing", "o")
        for verb, line in zip(("nack", "ack"), stream.take(2), strict=True):
            place = {"partition": line["partition"], "offset": line["offset"]}
            client.post(f"/v1/{verb}", {"topic": "orders", "group": "billing", "owner": "o", **place})
        yield started
        stream.close()


@pytest.fixture(scope="module")
def prometheus(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [
            {
                "job_name": "driftq",
                "metrics_path": "/v1/metrics",
                "static_configs": [{"targets": [f"127.0.0.1:{server.port}"]}],
            }
        ],
    }
    with running_prometheus(tmp_path_factory.mktemp("prometheus"), config) as started:
        wait_until("the server is scraped", lambda: bool(started.query('up{job="driftq"} == 1')))
        yield started


def exposed(server: ServerProcess) -> set[str]:
    """The names of all samples that a server and a pipeline have."""
    job = JobStatus(job="projection-x", state=PipelineJobState.RUNNING)
    text = server.client().get("/v1/metrics").body.decode() + as_text([job]).decode()
    families = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    return families | set(re.findall(r"^(\w+)(?:\{| )", text, re.MULTILINE))


@pytest.mark.clause("O1")
@pytest.mark.timeout(180)
def test_promtool_finds_nothing_to_say_about_a_scrape(server: ServerProcess) -> None:
    text = server.client().get("/v1/metrics").body.decode()
    checked = promtool("check", "metrics", stdin=text)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.mark.clause("O1")
@pytest.mark.timeout(180)
def test_prometheus_scrapes_a_server_and_has_every_metric_with_its_help(prometheus: Prometheus) -> None:
    metadata = prometheus.get("/api/v1/targets/metadata", match_target='{job="driftq"}')
    known = {(one["metric"], one["type"], one["help"]) for one in metadata}
    assert {(family.name, family.kind, family.meaning) for family in FAMILIES} <= known
    (dead,) = prometheus.query("driftq_dead_letters")
    assert (dead["metric"]["topic"], dead["value"][1]) == ("orders", "1")
    (oldest,) = prometheus.query("driftq_queue_oldest_age_seconds")
    assert oldest["metric"]["queue"] == "mail"


@pytest.mark.clause("O1", "O5")
@pytest.mark.timeout(180)
def test_every_metric_of_the_dashboard_and_the_alerts_exists(server: ServerProcess) -> None:
    missing = names_used() - exposed(server) - {"up"}
    assert not missing
    assert len(names_used()) > 30, "the names were not found in the files"


@pytest.mark.clause("O1")
@pytest.mark.timeout(180)
def test_prometheus_can_answer_every_query_of_the_dashboard(prometheus: Prometheus) -> None:
    for title, expr in expressions():
        assert isinstance(prometheus.query(expr), list), title
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.clause("O1")
@pytest.mark.timeout(180)
def test_the_rules_are_loaded_and_one_of_them_fires(prometheus: Prometheus, tmp_path: Path) -> None:
    checked = promtool("check", "rules", str(ALERTS))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    groups: list[dict[str, Any]] = prometheus.get("/api/v1/rules")["groups"]
    assert {rule["health"] for group in groups for rule in group["rules"]} <= {"ok", "unknown"}
    written = tmp_path / "firing.yaml"
    written.write_text(FIRING.format(alerts=ALERTS, grown="3"))
    tested = promtool("test", "rules", str(written))
    assert tested.returncode == 0, tested.stdout + tested.stderr
