"""`driftq explain` tells people and scripts what happened."""

import json

import pytest

from tests.unit.cli.conftest import Run


@pytest.mark.clause("D8")
def test_the_history_of_a_message_is_shown_in_order(run_client: Run, topic: str) -> None:
    run_client("produce", topic, "two coffees", "--key", "user:1", "--tenant", "acme")
    held = ["--group", "g", "--owner", "me", "--max", "1", "--no-ack", "--lease-ms", "60000"]
    run_client("consume", topic, *held)
    run_client("nack", topic, "1", "0", "--group", "g", "--owner", "me", "--reason", "out of milk")
    run_client("consume", topic, "--group", "g", "--max", "1")
    said = run_client("explain", f"{topic}/0")
    assert said.exit_code == 0
    assert said.stdout.startswith(f"{topic}/0  partition 1  key user:1\n  tenant_id: acme\n")
    words = ("stored", "to me, lease until", "out of milk", " acked", "done")
    places = [said.stdout.index(word) for word in words]
    assert places == sorted(places)
    view = json.loads(run_client("explain", f"{topic}/0", "--json").stdout)
    assert [one["what"] for one in view["history"]] == ["stored", "delivered", "nacked", "delivered", "acked"]


@pytest.mark.clause("E5")
def test_a_run_is_shown_as_a_tree(run_client: Run, topic: str) -> None:
    run_id = f"run {topic}"
    run_client("produce", topic, "plan", "--run-id", run_id, "--step-id", "plan")
    run_client("produce", topic, "act", "--run-id", run_id, "--step-id", "act", "--parent-step-id", "plan")
    said = run_client("explain", "--run", run_id).stdout
    assert f"run {run_id}: waiting" in said
    plan, act = (line for line in said.splitlines() if f"{topic}/" in line)
    assert plan.split() == ["plan", "waiting", "0", f"{topic}/0"]
    assert act.split() == ["act", "waiting", "0", f"{topic}/1"]
    assert act.index("act") == plan.index("plan") + 2
    assert json.loads(run_client("explain", "--run", run_id, "--json").stdout)["steps"][1]["depth"] == 1


def test_what_cannot_be_explained_is_said_in_one_line(run_client: Run, topic: str) -> None:
    missing = run_client("explain", f"{topic}/7")
    assert (missing.exit_code, missing.stderr.count("\n")) == (1, 1)
    assert "NOT_FOUND" in missing.stderr
    for wrong in ([], [topic], [f"{topic}/x"], [f"{topic}/1", "--run", "r"]):
        assert run_client("explain", *wrong).exit_code == 2
