"""What the client commands say to people and to scripts, against a real server."""

import datetime as dt
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from driftq.made_up_key import MADE_UP_PREFIX
from tests.harness import ServerProcess
from tests.unit.cli.conftest import Run


def test_topics_are_created_listed_and_shown(run_client: Run, topic: str) -> None:
    again = run_client("topic", "create", topic, "--partitions", "3")
    assert (again.exit_code, again.stdout) == (0, f"topic {topic} with 3 partitions\n")
    assert topic in run_client("topic", "list").stdout.splitlines()
    assert topic in json.loads(run_client("topic", "list", "--json").stdout)["topics"]
    assert "no group reads this topic yet" in run_client("topic", "show", topic).stdout
    run_client("produce", topic, "two coffees", "--key", "user:1")
    run_client("consume", topic, "--group", "billing", "--max", "1")
    shown = run_client("topic", "show", topic).stdout
    assert "billing" in shown
    assert "lag" in shown
    view = json.loads(run_client("topic", "show", topic, "--json").stdout)
    assert [row["lag"] for row in view["groups"]] == [0, 0, 0]


def test_a_refusal_is_one_line_perhaps_with_a_hint_and_exit_1(run_client: Run, topic: str) -> None:
    missing = run_client("topic", "show", "nowhere")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert missing.stderr.startswith("error: topic 'nowhere' does not exist (NOT_FOUND)\nhint: ")
    assert missing.stderr.count("\n") == 2
    other = run_client("topic", "create", topic, "--partitions", "4")
    assert (other.exit_code, other.stderr.count("\n")) == (1, 1)
    assert "ALREADY_EXISTS" in other.stderr


def test_one_message_is_produced_with_its_envelope(run_client: Run, topic: str) -> None:
    envelope = ["--run-id", "r", "--step-id", "s", "--tenant", "t", "--partition", "2"]
    deadline = ["--deadline", "2100-01-01T00:00:00Z"]
    said = run_client("produce", topic, "two coffees", "--idempotency-key", "order-1", *envelope, *deadline)
    assert (said.exit_code, said.stdout) == (0, f"produced to {topic} partition 2 offset 0\n")
    again = run_client("produce", topic, "two coffees", "--idempotency-key", "order-1", *envelope, "--json")
    assert json.loads(again.stdout)["duplicate"] is True
    came = json.loads(run_client("consume", topic, "--group", "g", "--max", "1", "--json").stdout)
    assert came["value"] == "two coffees"
    assert came["envelope"] == {
        "run_id": "r",
        "step_id": "s",
        "tenant_id": "t",
        "idempotency_key": "order-1",
        "partition_override": 2,
        "deadline": "2100-01-01T00:00:00Z",
    }


@pytest.mark.clause("P9")
def test_a_message_is_delayed_by_seconds_or_until_an_instant(run_client: Run, topic: str) -> None:
    begin = dt.datetime.now(dt.UTC)
    assert run_client("produce", topic, "in an hour", "--delay", "3600").exit_code == 0
    assert (
        run_client("produce", topic, "at an instant", "--deliver-at", "2100-01-01T00:00:00Z").exit_code == 0
    )
    assert run_client("produce", topic, "past", "--deliver-at", "2001-01-01T00:00:00Z").exit_code == 0
    came = json.loads(run_client("consume", topic, "--group", "g", "--max", "1", "--json").stdout)
    assert came["value"] == "past"
    view = json.loads(run_client("topic", "show", topic, "--json").stdout)
    assert sum(group["delayed"] for group in view["groups"]) <= 2
    both = run_client("produce", topic, "x", "--delay", "1", "--deliver-at", "2100-01-01T00:00:00Z")
    assert both.exit_code == 2
    told = run_client("explain", f"{topic}/0").stdout
    assert "waits until" in told
    assert str((begin + dt.timedelta(hours=1)).year) in told


@pytest.mark.clause("P7")
def test_a_key_is_made_unless_there_are_no_retries(run_client: Run, topic: str) -> None:
    run_client("produce", topic, "keyed")
    run_client("produce", topic, "bare", "--retries", "0")
    lines = run_client("consume", topic, "--group", "g", "--max", "2", "--json").stdout.splitlines()
    keyed, bare = (json.loads(line) for line in lines)
    assert keyed["envelope"]["idempotency_key"].startswith(MADE_UP_PREFIX)
    assert "envelope" not in bare


@pytest.mark.clause("P6", "P7")
def test_lines_of_a_file_are_produced_in_batches(run_client: Run, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"line {number} ü\n" for number in range(1, 1203)))
    said = run_client("produce", topic, "--file", str(file), "--idempotency-key", "import-7")
    assert (said.exit_code, said.stdout) == (0, "1202 produced, 0 of them duplicates, 0 failed\n")
    again = run_client("produce", topic, "--file", str(file), "--idempotency-key", "import-7", "--json")
    assert json.loads(again.stdout) == {"produced": 1202, "duplicates": 1202, "failed": 0}
    lines = run_client("consume", topic, "--group", "g", "--max", "1202", "--json").stdout.splitlines()
    assert [json.loads(line)["value"] for line in lines] == file.read_text().splitlines()


def test_stdin_is_a_file_too_and_stops_at_what_is_no_text(run_client: Run, topic: str) -> None:
    said = run_client("produce", topic, "--file", "-", stdin=b"one\n\nthree\n\xff\xfe\nfive\n")
    assert (said.exit_code, said.stdout) == (1, "3 produced, 0 of them duplicates, 0 failed\n")
    assert said.stderr == "error: stdin, line 4 is not UTF-8; nothing after it was sent\n"


def test_lines_that_are_refused_are_named(run_client: Run, topic: str) -> None:
    said = run_client("produce", topic, "--file", "-", "--partition", "9", stdin="one\ntwo\n")
    assert (said.exit_code, said.stdout) == (1, "0 produced, 0 of them duplicates, 2 failed\n")
    assert said.stderr.startswith("error: line 1: ")
    assert "INVALID_ARGUMENT" in said.stderr


def test_a_value_or_a_file_but_not_both_and_not_none(run_client: Run, topic: str) -> None:
    assert run_client("produce", topic).exit_code == 2
    assert run_client("produce", topic, "value", "--file", "-").exit_code == 2
    missing = run_client("produce", topic, "--file", "no-such-file")
    assert (missing.exit_code, "no-such-file: no such file" in missing.stderr) == (1, True)


def test_consume_acks_what_it_prints(run_client: Run, topic: str) -> None:
    run_client("produce", topic, "two coffees", "--key", "user:1")
    first = run_client("consume", topic, "--group", "g", "--max", "1")
    assert first.stdout == "partition 1  offset 0  attempt 1  key user:1\ntwo coffees\n"
    assert first.stderr == "1 message\n"
    view = json.loads(run_client("topic", "show", topic, "--json").stdout)
    assert sum(row["lag"] for row in view["groups"]) == 0


def test_what_is_not_acked_is_settled_by_its_owner(run_client: Run, topic: str) -> None:
    for value in ("a", "b"):
        run_client("produce", topic, value)
    held = run_client(
        "consume", topic, "--group", "g", "--owner", "me", "--no-ack", "--max", "2", "--lease-ms", "60000"
    )
    assert "leased to owner me" in held.stderr
    mine = ["--group", "g", "--owner", "me"]
    stale = run_client("ack", topic, "0", "0", *mine, "--attempt", "2")
    assert stale.stderr == "error: stale attempt (FAILED_PRECONDITION)\n"
    other = run_client("ack", topic, "0", "0", "--group", "g", "--owner", "you")
    assert (other.exit_code, other.stderr) == (1, "error: not owner (FAILED_PRECONDITION)\n")
    acked = run_client("ack", topic, "0", "0", *mine)
    assert (acked.exit_code, acked.stdout) == (0, f"acked {topic} partition 0 offset 0\n")
    nacked = run_client("nack", topic, "0", "1", *mine, "--reason", "out of milk")
    assert (nacked.exit_code, nacked.stdout) == (0, f"nacked {topic} partition 0 offset 1\n")
    again = run_client("consume", topic, "--group", "g", "--max", "1")
    assert again.stdout == 'partition 0  offset 1  attempt 2  last error "out of milk"\nb\n'


@pytest.mark.clause("D5")
def test_a_nack_without_retry_is_a_dead_letter(run_client: Run, topic: str) -> None:
    run_client("produce", topic, "a")
    run_client("consume", topic, "--group", "g", "--owner", "me", "--no-ack", "--max", "1")
    mine = ["--group", "g", "--owner", "me", "--reason", "no such user"]
    assert run_client("nack", topic, "0", "0", *mine, "--no-retry").exit_code == 0
    [letter] = json.loads(run_client("dlq", "show", topic, "--json").stdout)["messages"]
    assert letter["envelope"]["dlq"]["reason"] == "not_retryable"
    assert letter["envelope"]["dlq"]["last_error"] == "no such user"


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_consume_ends_cleanly_when_told_to(real_server: ServerProcess, topic: str, ended_by: int) -> None:
    url = f"http://127.0.0.1:{real_server.port}"
    command = [sys.executable, "-m", "driftq", "consume", topic, "--group", "g", "--url", url]
    real_server.client().post("/v1/produce", {"topic": topic, "value": "only one"})
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "partition 0  offset 0  attempt 1\n"
        assert process.stdout.readline() == "only one\n"
        _wait_for_ack(real_server, topic)
        process.send_signal(ended_by)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "1 message\n")


def test_consume_into_a_closed_pipe_says_nothing(real_server: ServerProcess, topic: str) -> None:
    url = f"http://127.0.0.1:{real_server.port}"
    for number in range(20):
        real_server.client().post("/v1/produce", {"topic": topic, "value": f"{number}" * 5000})
    command = f"{sys.executable} -m driftq consume {topic} --group g --url {url} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "partition 0  offset 0  attempt 1\n"
    assert done.stderr == ""


def _wait_for_ack(server: ServerProcess, topic: str) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if sum(row["lag"] for row in server.client().get(f"/v1/topics/{topic}").body["groups"]) == 0:
            return
        time.sleep(0.01)
    raise AssertionError("never acked")


@pytest.mark.clause("N1")
def test_a_server_without_anything_says_so(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ServerProcess(tmp_path / "data", "--no-wal") as empty:
        monkeypatch.setenv("DRIFTQ_URL", f"http://127.0.0.1:{empty.port}")
        assert run("topic", "list").stdout == "no topics yet; create one with: driftq topic create orders\n"
        assert run("job", "list").stdout == "no jobs\n"
        assert run("job", "list", "-q", "mail", "-s", "dead").stdout == "no dead jobs in queue mail\n"
        assert run("dlq", "list").stdout == "no dead letters\n"
        assert run("event", "list", "order", "o-1").stdout == "no events of order o-1\n"
        log = run("event", "log")
        assert (log.stdout, log.stderr) == ("", "no events at or after position 1\n")
        for noun, name in (("topic", "topics"), ("job", "jobs"), ("dlq", "dlqs")):
            assert json.loads(run(noun, "list", "--json").stdout) == {name: []}


@pytest.mark.clause("Y3")
def test_a_topic_is_created_for_a_tenant(run_client: Run) -> None:
    assert run_client("topic", "create", "acme.orders", "--tenant", "acme").exit_code == 0
    assert json.loads(run_client("topic", "show", "acme.orders", "--json").stdout)["tenant"] == "acme"
    refused = run_client("topic", "create", "acme.orders", "--tenant", "globex")
    assert (refused.exit_code != 0, "belongs to the tenant 'acme'" in refused.stderr) == (True, True)
