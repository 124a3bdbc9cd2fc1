"""`driftq produce` with formats, and what it says when it is stopped half-way."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import termios
from pathlib import Path
from typing import IO

import pytest

from driftq.cli.sending import BATCH_MESSAGES
from tests.harness import ServerProcess
from tests.support.waiting import wait_until
from tests.unit.cli.conftest import Run


def stored(server: ServerProcess, topic: str) -> int:
    return sum(one["messages"] for one in server.client().get(f"/v1/topics/{topic}").body["partitions"])


class Interrupted:
    """`driftq produce --file -` that has sent some batches, waits for more lines, and is stopped then."""

    def __init__(self, server: ServerProcess, topic: str, *options: str) -> None:
        url = f"http://127.0.0.1:{server.port}"
        command = [sys.executable, "-m", "driftq", "produce", topic, "--file", "-", "--url", url, *options]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdin is not None
        # One line more than two batches: those are sent, and the line waits for others of its batch.
        process.stdin.write(b"".join(b"line %d\n" % number for number in range(2 * BATCH_MESSAGES + 1)))
        process.stdin.flush()
        wait_until("two batches are stored", lambda: stored(server, topic) >= 2 * BATCH_MESSAGES)
        let_it_come_for_more(process.stdin)
        process.send_signal(signal.SIGINT)
        self.said, self.aside = (text.decode() for text in process.communicate(timeout=60))
        self.code = process.returncode


def let_it_come_for_more(stdin: IO[bytes]) -> None:
    """Returns when the sender asks for lines again: only then has it counted what it was confirmed."""
    stdin.write(b"one more\n")
    stdin.flush()

    def is_read() -> bool:
        left = fcntl.ioctl(stdin.fileno(), termios.FIONREAD, bytes(4))
        return int.from_bytes(left, sys.byteorder) == 0

    wait_until("it has come for more lines", is_read)


@pytest.mark.clause("P7")
def test_an_interrupted_import_says_what_is_stored_and_goes_on_where_it_was(
    run_client: Run, real_server: ServerProcess, topic: str
) -> None:
    cut = Interrupted(real_server, topic)
    assert cut.code == 130
    assert cut.said == f"{2 * BATCH_MESSAGES} produced, 0 of them duplicates, 0 failed\n"
    assert "Traceback" not in cut.aside
    found = re.search(
        r"repeat the command with (--idempotency-key driftq-auto:\S+): no message is stored twice", cut.aside
    )
    assert found is not None, cut.aside
    lines = "".join(f"line {number}\n" for number in range(2 * BATCH_MESSAGES + 100))
    again = run_client("produce", topic, "--file", "-", *found[1].split(), stdin=lines)
    assert again.stdout.startswith(f"{2 * BATCH_MESSAGES + 100} produced, {2 * BATCH_MESSAGES} of them dupl")
    assert stored(real_server, topic) == 2 * BATCH_MESSAGES + 100


@pytest.mark.clause("P7")
def test_an_interrupted_import_says_so_to_scripts_too(real_server: ServerProcess, topic: str) -> None:
    cut = Interrupted(real_server, topic, "--json", "--idempotency-key", "import-7")
    assert json.loads(cut.said) == {
        "produced": 2 * BATCH_MESSAGES,
        "duplicates": 0,
        "failed": 0,
        "interrupted": True,
    }
    assert "with the same --idempotency-key" in cut.aside


@pytest.mark.clause("P7")
def test_an_import_that_loses_its_server_says_what_is_stored(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        server.client().post("/v1/topics", {"name": "orders"})
        url = f"http://127.0.0.1:{server.port}"
        command = [sys.executable, "-m", "driftq", "produce", "orders", "-f", "-", "--retries", "1"]
        with subprocess.Popen(
            [*command, "--url", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdin is not None
            process.stdin.write(b"a line\n" * (BATCH_MESSAGES + 1))
            process.stdin.flush()
            wait_until("a batch is stored", lambda: stored(server, "orders") >= BATCH_MESSAGES)
            let_it_come_for_more(process.stdin)
            server.kill()
            said, aside = (text.decode() for text in process.communicate(timeout=60))
    assert (process.returncode, said) == (1, f"{BATCH_MESSAGES} produced, 0 of them duplicates, 0 failed\n")
    assert "to resume, repeat the command with --idempotency-key driftq-auto:" in aside
    assert "error: no DriftQ server answers" in aside


@pytest.mark.clause("P1")
def test_the_format_counts_for_a_value_too(run_client: Run, topic: str) -> None:
    value = '{ "user": "ada",  "drink": "tea" }'
    told = json.loads(
        run_client("produce", topic, value, "--format", "ndjson", "--key-field", "user", "--json").stdout
    )
    by_key = json.loads(run_client("produce", topic, "x", "--key", "ada", "--json").stdout)
    assert told["partition"] == by_key["partition"]
    lines = run_client("consume", topic, "-g", "g", "-n", "2", "--json").stdout.splitlines()
    first = json.loads(lines[0])
    assert (first["key"], first["value"]) == ("ada", '{"user":"ada","drink":"tea"}')


@pytest.mark.clause("P1")
@pytest.mark.parametrize(
    ("value", "options", "words"),
    [
        ("{tea", ["--format", "ndjson"], "VALUE: not JSON"),
        ("", ["--format", "ndjson"], "VALUE: not JSON: it is empty"),
        ("{}", ["--format", "ndjson", "--key-field", "user"], "VALUE: has no field 'user' for the key"),
        ("a,b", ["--format", "csv"], "--format csv goes with --file"),
        ("{}", ["--key-field", "user"], "--key-field goes with --format ndjson or csv"),
    ],
)
def test_a_value_that_is_not_of_its_format_is_refused(
    run_client: Run, topic: str, real_server: ServerProcess, value: str, options: list[str], words: str
) -> None:
    refused = run_client("produce", topic, value, *options)
    assert refused.exit_code == 2
    assert words in " ".join(refused.stderr.split())
    assert stored(real_server, topic) == 0


def test_a_file_that_is_not_there_is_one_line(run_client: Run, topic: str) -> None:
    missing = run_client("produce", topic, "--file", "no-such-file")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert missing.stderr == "error: no-such-file: no such file or directory; nothing was sent\n"


def test_ctrl_c_in_any_command_is_one_word(folder: Path) -> None:
    """A server that never answers, and a person who has waited long enough."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-m", "driftq", "topic", "list", "--url", url]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            accepted, _ = silent.accept()
            with accepted:
                assert accepted.recv(10)
                os.kill(process.pid, signal.SIGINT)
                _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "interrupted\n")
