"""`driftq dlq redrive` says what it sent, and plainly what it did not send and why."""

from typing import Any

import pytest

from driftq.cli.dlq import skipped_lines
from tests.harness import ServerProcess
from tests.unit.cli.conftest import Run


def give_up(server: ServerProcess, topic: str, group: str, count: int) -> None:
    client = server.client()
    stream = server.stream(topic, group, "w", lease_ms=30_000)
    for delivery in stream.take(count):
        nack = {"topic": topic, "group": group, "owner": "w", "reason": "bad", "retryable": False}
        place = {name: delivery[name] for name in ("partition", "offset")}
        assert client.post("/v1/nack", nack | place).status == 204
    stream.close()


@pytest.mark.clause("D6")
def test_a_redrive_says_which_letters_it_skipped_and_what_to_do(
    run_client: Run, real_server: ServerProcess, topic: str
) -> None:
    for value in ("one", "two"):
        assert run_client("produce", topic, value).exit_code == 0
    give_up(real_server, topic, "billing", 2)
    give_up(real_server, topic, "search", 2)
    assert run_client("group", "delete", topic, "billing").exit_code == 0

    said = run_client("dlq", "redrive", topic)
    assert said.exit_code == 0
    assert said.stdout.splitlines() == [
        "4 dead letters match, 2 were redriven",
        "2 skipped: group billing no longer exists; --all-groups redrives them to every group (offset 0, 1)",
    ]
    refused = run_client("dlq", "redrive", topic)
    assert refused.exit_code != 0
    assert "billing" in refused.stderr
    assert "all_groups" in refused.stderr

    sent = run_client("dlq", "redrive", topic, "--all-groups")
    assert sent.stdout.splitlines() == ["2 dead letters match, 2 were redriven"]


def test_very_many_skipped_letters_are_told_shortly() -> None:
    skipped: list[dict[str, Any]] = [
        {"offset": offset, "reason": "group_deleted", "group": "g"} for offset in range(99)
    ]
    skipped.append({"offset": 200, "reason": "already_redriven"})
    answer = {"matched": 1_300, "redriven": 1_000, "skipped": skipped}
    first, second, third = skipped_lines(answer, listed_all=False)
    assert first.startswith("99 skipped: group g no longer exists; ")
    assert first.endswith("(offset 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …)")
    assert second == "1 skipped: they were already redriven (offset 200)"
    assert third == "200 more were skipped"
