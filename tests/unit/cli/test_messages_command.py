"""`driftq messages` finds stored messages for people and scripts."""

import json

from tests.unit.cli.conftest import Run


def test_messages_are_found_by_key_and_tenant_and_shown_in_order(run_client: Run, topic: str) -> None:
    for number in range(5):
        tenant = "acme" if number % 2 else "umbrella"
        run_client("produce", topic, f"cup {number}", "--key", f"user:{number % 3}", "--tenant", tenant)
    shown = run_client("messages", topic, "--key", "user:1")
    assert shown.exit_code == 0
    assert [line.split()[-1] for line in shown.stdout.splitlines() if "cup" in line] == ["1", "4"]
    lines = run_client("messages", topic, "--tenant", "acme", "--newest", "--json").stdout.splitlines()
    assert [json.loads(line)["value"] for line in lines] == ["cup 3", "cup 1"]
    both = run_client("messages", topic, "--tenant", "acme", "--key", "user:1", "--json").stdout
    assert json.loads(both)["offset"] == 1


def test_a_limit_is_kept_over_pages_and_said(run_client: Run, topic: str) -> None:
    run_client("produce", topic, "a")
    run_client("produce", topic, "b")
    part = run_client("messages", topic, "--limit", "1")
    assert "there may be more: raise --limit" in part.stderr
    nothing = run_client("messages", topic, "--key", "nobody")
    assert (nothing.exit_code, nothing.stdout) == (0, f"no stored message of {topic} fits\n")


def test_what_cannot_be_searched_is_said_in_one_line(run_client: Run, topic: str) -> None:
    for arguments in (["missing-topic"], [topic, "--since", "yesterday"], [topic, "--partition", "9"]):
        refused = run_client("messages", *arguments)
        said = [line for line in refused.stderr.splitlines() if not line.startswith("hint: ")]
        assert (refused.exit_code, len(said)) == (1, 1)
