"""Commands that destroy something ask first: at a terminal a person, elsewhere only --yes will do."""

from __future__ import annotations

import os
import pty
import sys
from uuid import uuid4

import pytest

from tests.harness import ServerProcess
from tests.unit.cli.conftest import Run


@pytest.fixture
def doomed(run_client: Run, real_server: ServerProcess) -> str:
    """A topic with three messages that were all given up."""
    name = f"doomed-{uuid4().hex[:8]}"
    assert run_client("topic", "create", name).exit_code == 0
    client = real_server.client()
    stream = real_server.stream(name, "g", "me")
    for number in range(3):
        client.post("/v1/produce", {"topic": name, "value": f"message {number}"})
        (given,) = stream.take(1)
        place = {"partition": given["partition"], "offset": given["offset"]}
        nack = {"topic": name, "group": "g", "owner": "me", **place, "retryable": False, "reason": "no"}
        assert client.post("/v1/nack", nack).status == 204
    stream.close()
    return name


def at_a_terminal(server: ServerProcess, *words: str, answer: str) -> tuple[int, str]:
    """The exit code, and what the screen shows, of a command that is answered by hand."""
    url = f"http://127.0.0.1:{server.port}"
    child, screen = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-m", "driftq", *words, "--url", url])
    shown = b""
    answered = False
    while True:
        try:
            came = os.read(screen, 4096)
        except OSError:  # The other end is closed: the command is over.
            came = b""
        if not came:
            break
        shown += came
        if b"[y/N]" in shown and not answered:
            os.write(screen, f"{answer}\n".encode())
            answered = True
    os.close(screen)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), shown.decode().replace("\r\n", "\n")


@pytest.mark.clause("T7")
def test_a_topic_is_deleted_after_a_yes_at_the_terminal(
    run_client: Run, real_server: ServerProcess, topic: str
) -> None:
    run_client("produce", topic, "two coffees")
    code, shown = at_a_terminal(real_server, "topic", "delete", topic, answer="n")
    assert f"Delete topic {topic} with its 1 message, for good? [y/N]" in shown
    assert (code, "nothing was changed" in shown) == (1, True)
    assert real_server.client().get(f"/v1/topics/{topic}").status == 200
    code, shown = at_a_terminal(real_server, "topic", "delete", topic, answer="y")
    assert (code, f"topic {topic} is deleted" in shown) == (0, True)
    assert real_server.client().get(f"/v1/topics/{topic}").status == 404


@pytest.mark.clause("T7")
def test_without_a_terminal_a_topic_is_deleted_by_yes_only(
    run_client: Run, real_server: ServerProcess, topic: str
) -> None:
    refused = run_client("topic", "delete", topic, stdin="y\n")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "repeat the command with --yes" in refused.stderr
    assert real_server.client().get(f"/v1/topics/{topic}").status == 200
    assert run_client("topic", "delete", topic, "--yes").exit_code == 0
    missing = run_client("topic", "delete", topic)
    assert missing.stderr.startswith(f"error: topic '{topic}' does not exist (NOT_FOUND)\nhint: ")


@pytest.mark.clause("D6")
def test_dead_letters_are_purged_after_a_yes(
    run_client: Run, real_server: ServerProcess, doomed: str
) -> None:
    only_counted = run_client("dlq", "purge", doomed, "--dry-run")
    assert only_counted.stdout == "3 dead letters would be purged; nothing was changed\n"
    refused = run_client("dlq", "purge", doomed)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "--yes" in refused.stderr
    code, shown = at_a_terminal(real_server, "dlq", "purge", doomed, "--offset", "1", answer="y")
    assert f"Purge 1 dead letter of {doomed}, for good? [y/N]" in shown
    assert (code, "1 dead letter purged" in shown) == (0, True)
    assert run_client("dlq", "purge", doomed, "--yes").stdout == "2 dead letters purged\n"
    assert run_client("dlq", "purge", doomed, "--yes").stdout == f"{doomed} has no dead letters\n"


@pytest.mark.clause("D6")
def test_a_topic_without_dead_letters_is_not_a_missing_topic(run_client: Run, topic: str) -> None:
    assert run_client("dlq", "show", topic).stdout == f"{topic} has no dead letters\n"
    assert run_client("dlq", "show", topic, "--json").stdout == '{"messages":[]}\n'
    assert run_client("dlq", "purge", topic).stdout == f"{topic} has no dead letters\n"
    assert run_client("dlq", "redrive", topic).exit_code == 0
    for verb in ("show", "purge", "redrive"):
        missing = run_client("dlq", verb, "nowhere")
        said = missing.stderr.splitlines()[0]
        assert (missing.exit_code, said) == (1, "error: topic 'nowhere' does not exist (NOT_FOUND)")


@pytest.mark.clause("D6")
def test_the_topic_of_the_dead_letters_may_be_named_too(run_client: Run, doomed: str) -> None:
    shown = run_client("dlq", "show", f"dlq.{doomed}", "--json").stdout
    assert shown == run_client("dlq", "show", doomed, "--json").stdout
    assert shown.count("message 0") == 1
