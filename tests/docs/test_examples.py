"""Every example runs as a process of its own and prints its idea; the index of examples lists them all."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from driftq.pipeline.app.file import load_app_file
from tests.harness import ServerProcess

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TIMEOUT_S = 120.0
"""Each takes a second or two; other tests may keep the machine busy."""
ROW = re.compile(
    r"^\| \[`(?P<file>\w+\.py)`\]\((?P=file)\) \| (?P<shows>.+) \| `(?P<command>.+)` \|$", re.MULTILINE
)

PRINTS = {
    "agent_steps.py": "the tools ran: ['search', 'charge']",
    "batch_of_jobs.py": "100 jobs, the sum of their results is 328350",
    "batch_with_refusals.py": "refused: {'id': 'milk', 'price': 99}: IdempotencyMismatch",
    "concurrent_produce.py": "5000 messages acked, 0 left",
    "custom_sink.py": "readers see [('o-1', '{\"state\": \"paid in full\"}')]",
    "dead_letter_redrive.py": "shipping gets 0 messages",
    "delayed_messages.py": "second at offset 0",
    "delayed_and_prioritised_jobs.py": "later: reminder with priority 9",
    "explain_message.py": "group billing is done after 2 attempts",
    "follow_events.py": "second follower: order-3",
    "fair_turns.py": "running: ['flood', 'ada', 'bob']",
    "handler_sink.py": "tea costs 4 euros, from message 2",
    "http_effect.py": "the bank has 1 charge",
    "idempotent_produce.py": "1 message stored",
    "idempotent_worker.py": "second delivery: {'charge_id': 'ch-1'}, duplicate: True",
    "message_headers.py": "order 1 from web",
    "job_hooks.py": "request r-2: send is dead: ada is no address",
    "job_result.py": "failed: job-1 is dead: ZeroDivisionError: division by zero",
    "optimistic_append.py": "['order.opened', 'order.paid', 'order.refunded']",
    "outbox.py": "the relay sent 1 row, then 0",
    "job_chain.py": "publish is blocked, after 2 jobs",
    "periodic_job.py": "each due time once: True",
    "pipeline_app.py": "events.order → worker-want_parcel (want_parcel) → registry",
    "produce_and_consume.py": "0 messages left",
    "rebuild_read_model.py": "events.account → projection-balances → read_models",
    "reopen_folder.py": "remember the milk",
    "replay_group.py": "after the reset: ['tea', 'milk', 'bread']",
    "resumable_import.py": "the topic has ['first', 'second', 'third', 'fourth']",
    "requeue_dead_jobs.py": "2 of 3 dead jobs match",
    "retry_policy.py": "dead letter after 3 attempts, reason: max_attempts",
    "retry_through_outage.py": "charged tea at attempt 4",
    "router.py": "an order of 4200 is stored in orders.large",
    "router_classifier.py": "billing    I was charged twice, please refund the invoice",
    "testing_a_worker.py": "2 passed",
    "topic_as_parquet.py": "shop-0: 34 sales",
    "transactional_effect.py": "rows in the table: [('2041', 12)]",
    "unique_job.py": "1 job in the queue, state succeeded, result 'sent'",
    "watch_queues.py": "job-1 waits for ['job-0']",
}
"""The line of each example that shows its idea; a part of it where the rest is a time."""
NEED_A_SERVER = {"concurrent_produce.py"}
TESTS = {"testing_a_worker.py"}
PYTEST = ["-m", "pytest", "-q", "-c", os.devnull, "-p", "driftq.testing.plugin", "-p", "no:cacheprovider"]
"""As in a project with no settings of its own, and without the plugins that this project's tests need."""
APPS = ["pipeline_app.py", "rebuild_read_model.py"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as started:
        yield started


def output_of(name: str, folder: Path, url: str | None = None) -> list[str]:
    """The lines that the example prints; it must end with exit code 0."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("DRIFTQ_")}
    ran = subprocess.run(
        [sys.executable, *(PYTEST if name in TESTS else []), str(EXAMPLES / name)],
        cwd=folder,
        env=kept | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | ({"DRIFTQ_URL": url} if url else {}),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.parametrize("name", sorted(PRINTS.keys() - NEED_A_SERVER))
def test_an_example_runs_without_a_server_and_prints_its_idea(name: str, tmp_path: Path) -> None:
    lines = output_of(name, tmp_path)
    assert any(PRINTS[name] in line for line in lines), lines
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind in the folder where it was started"


@pytest.mark.parametrize("name", sorted(NEED_A_SERVER))
def test_an_example_runs_against_a_server(name: str, tmp_path: Path, server: ServerProcess) -> None:
    lines = output_of(name, tmp_path, f"http://127.0.0.1:{server.port}")
    assert PRINTS[name] in lines


@pytest.mark.clause("R6")
def test_the_classifier_tells_labels_apart(tmp_path: Path) -> None:
    lines = output_of("router_classifier.py", tmp_path)
    assert [line.split()[0] for line in lines] == ["billing", "shipping", "-"]


@pytest.mark.parametrize("name", APPS)
def test_a_pipeline_example_loads_as_an_app(name: str) -> None:
    app = load_app_file(str(EXAMPLES / name)).require_app()
    assert app.projections


def test_every_example_is_run_and_listed_with_what_its_docstring_says() -> None:
    files = {path.name for path in EXAMPLES.glob("*.py")}
    assert files == PRINTS.keys()
    rows = {row["file"]: row for row in ROW.finditer((EXAMPLES / "README.md").read_text(encoding="utf-8"))}
    assert rows.keys() == files
    for name, row in rows.items():
        docstring = ast.get_docstring(ast.parse((EXAMPLES / name).read_text(encoding="utf-8"))) or ""
        first_paragraph = " ".join(docstring.split("\n\n")[0].split())
        assert row["shows"] == first_paragraph, name
        assert row["command"] == f"{'pytest' if name in TESTS else 'python'} examples/{name}"
