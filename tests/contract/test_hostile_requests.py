"""10,000 hostile requests to a server with keys: no 500, no file outside, no secret, nothing of others.

Request N of a seed is always the same. `DRIFTQ_FUZZ_SEED` and `DRIFTQ_FUZZ_REQUESTS` choose others.
"""

from __future__ import annotations

import ast
import os
import random
import re
import select
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.contract.example_requests import ExampleRequest, example_requests
from tests.contract.hostile import request, spoilt_body, spoilt_path
from tests.contract.keyed import TenantServer
from tests.contract.serving import ROOT
from tests.contract.test_tenants import dead_letter

SEED = os.environ.get("DRIFTQ_FUZZ_SEED", "16")
REQUESTS = int(os.environ.get("DRIFTQ_FUZZ_REQUESTS", "10000"))
MARKER = "marked-by-acme"
WATCHED = Path(__file__).parent / "watched"
PATIENCE_S = 20.0
SLOW = frozenset({"/v1/seal"})
"""A round of housekeeping each: left to other tests."""


class RawClient:
    """Sends bytes, and reads one reply: a stream is cut when its head is there."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ask(self, content: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE_S) as client:
            try:
                client.sendall(content)
            except OSError:
                pass  # The server has answered and closed before it had all of it.
            received = b""
            while not self._is_whole(received, content):
                if not select.select([client], [], [], PATIENCE_S if not received else 2.0)[0]:
                    break
                try:
                    part = client.recv(65536)
                except ConnectionResetError:
                    break
                if not part:
                    break
                received = (received + part).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
        return received

    @staticmethod
    def _is_whole(received: bytes, content: bytes) -> bool:
        head, end, body = received.partition(b"\r\n\r\n")
        if not end:
            return False
        if content.startswith(b"HEAD"):
            return True
        length = re.search(rb"\r\nContent-Length: (\d+)", head)
        return length is None or len(body) >= int(length[1])


def is_answered(content: bytes) -> bool:
    """Whether the server must answer at once: a head that promises more than it sends gets a 408 later."""
    head, _, body = content.partition(b"\r\n\r\n")
    lengths = re.findall(rb"\r\nContent-Length: *(\S+)", head)
    if b"Transfer-Encoding" in head or len(lengths) > 1:
        return False
    return not lengths or not lengths[0].isdigit() or int(lengths[0]) <= len(body)


def prepared(server: TenantServer) -> list[ExampleRequest]:
    """Something of each kind that belongs to acme, and a request for each route that names it."""
    topic = f"{MARKER}.topic"
    assert server.create(topic, key=server.acme).status == 201
    dead_letter(server, topic, server.acme)
    assert server.send(topic, f"{MARKER} value", key=server.acme, run_id=f"{MARKER}.run").status == 200
    job = server.enqueue(f"{MARKER}.queue", key=server.acme, payload=f"{MARKER} payload").json["job_id"]
    assert server.append_event(f"{MARKER}.type", f"{MARKER}.event", key=server.acme).status == 201
    names = {"topic": topic, "queue": f"{MARKER}.queue", "job_id": job, "aggregate_type": f"{MARKER}.type"}
    document = server.ask("GET", "/v1/openapi.json", key=server.admin).json
    return [one for one in example_requests(document, names) if one.template not in SLOW]


def revealed(answer: bytes, content: bytes) -> bool:
    """Whether a reply has something of acme's that its request did not name."""
    rest = answer
    for name in set(re.findall(rb"marked-by-acme[\w.]*", content)):
        rest = rest.replace(name, b"")
    return MARKER.encode() in rest


@pytest.mark.clause("Y3", "Y4")
def test_ten_thousand_hostile_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touched, data = tmp_path / "touched", tmp_path / "data"
    monkeypatch.setenv("DRIFTQ_TOUCHED", str(touched))
    monkeypatch.setenv("PYTHONPATH", f"{WATCHED}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    data.mkdir()
    beside = set(ROOT.iterdir())
    with TenantServer(data, audit_file=str(data / "audit.log"), broker={"segment_records": 2_000}) as server:
        secrets = [key.rpartition("_")[2] for key in (server.admin, server.acme, server.globex)]
        statuses = attack(server, secrets)
        assert {200, 400, 401, 403, 404} <= set(statuses), statuses
        assert server.ask("GET", "/v1/healthz", key=None).status == 200
        code, logged = server.terminate()
        assert (code, "Traceback" in logged, "a request failed" in logged) == (0, False, False), logged[
            -4_000:
        ]
    audit = "".join(one.read_text() for one in data.glob("audit.log*"))
    for text in (logged, audit, (data / "keys.json").read_text()):
        assert not any(secret in text for secret in secrets)
    check_touched(touched, data)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["data", "touched"]
    assert set(ROOT.iterdir()) == beside  # The server's working folder.


def attack(server: TenantServer, secrets: list[str]) -> Counter[int]:
    """Send them all; how often each status was answered."""
    routes = prepared(server)
    client = RawClient(server.port)
    keys = (server.globex, server.admin, server.acme, None, "dq_0123456789ab_" + "0" * 64)
    statuses: Counter[int] = Counter()
    for number in range(REQUESTS):
        rng = random.Random(f"{SEED}/{number}")
        key = rng.choices(keys, weights=(60, 20, 10, 9, 1))[0]
        content = hostile_request(rng, rng.choice(routes), key)
        answer = client.ask(content)
        where = f"DRIFTQ_FUZZ_SEED={SEED}, request {number}: {content[:600]!r} -> {answer[:600]!r}"
        assert answer.startswith(b"HTTP/1.1 "), where
        statuses[int(answer[9:12])] += 1
        assert not answer.startswith((b"HTTP/1.1 500", b"HTTP/1.1 503")), where
        assert b"\r\nX-Injected" not in answer.partition(b"\r\n\r\n")[0], where
        assert not any(secret.encode() in answer for secret in secrets), where
        assert key in (server.admin, server.acme) or not revealed(answer, content), where
    return statuses


def hostile_request(rng: random.Random, one: ExampleRequest, key: str | None) -> bytes:
    """One that the server answers at once: requests that never arrive whole have tests of their own."""
    while True:
        path = one.path.encode()
        if rng.random() < 0.7:
            path = spoilt_path(rng, one.template, {"topic": f"{MARKER}.topic"})
        body = spoilt_body(rng, one.body) if one.body or rng.random() < 0.1 else b""
        content = request(rng, one.method, path, body, b"Bearer " + key.encode() if key else None)
        if is_answered(content):
            return content


def check_touched(notes: Path, data: Path) -> None:
    """The server and its housekeeper wrote within the data folder alone, and read nothing that was named."""
    lines = notes.read_text().splitlines()
    assert any("log" in line for line in lines)
    for line in lines:
        verb, _, quoted = line.partition(" ")
        path = str(ast.literal_eval(quoted))
        if verb == "write":
            assert f"{path}/".startswith((f"{data}/", ":memory:")) or (
                path not in ("..", "") and "/" not in path
            ), line
        assert not re.search(r"passwd|shadow|boot\.ini|\x00|<script|DROP TABLE", path), line


@pytest.mark.clause("Y4")
def test_config_shows_no_secret(tmp_path: Path) -> None:
    secret = "secret" + "5" * 64
    environment = {**os.environ, "DRIFTQ_API_KEY": f"dq_0123456789ab_{secret}"}
    for arguments in (["config"], ["config", "--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "driftq", *arguments],
            cwd=tmp_path,
            env=environment | {"PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout + done.stderr
        assert secret not in done.stdout + done.stderr
