"""A stored message that is damaged under a running server: its reader is told 503, and the server stops."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness import Answer, Client, ServerProcess

TOPIC = "orders"
LETTERS = f"dlq.{TOPIC}"


def give_up(server: ServerProcess, *values: str) -> None:
    """Messages with an idempotency key and a run, each given up by a group."""
    client = server.client()
    for value in values:
        envelope = {"idempotency_key": value, "run_id": "r", "step_id": value}
        body = {"topic": TOPIC, "value": value, "envelope": envelope}
        assert client.post("/v1/produce", body).status == 200
    stream = server.stream(TOPIC, "g", "w", lease_ms=30_000)
    for delivery in stream.take(len(values)):
        place = {name: delivery[name] for name in ("partition", "offset")}
        nack = {"topic": TOPIC, "group": "g", "owner": "w", "retryable": False}
        assert client.post("/v1/nack", nack | place).status == 204
    stream.close()


def damage(server: ServerProcess, text: str, *, occurrence: int) -> tuple[Path, int]:
    """Flip a bit of a stored value: its message is the first, its dead letter the second occurrence."""
    [file] = [one for one in server.log_folder.glob("*.log") if text.encode() in one.read_bytes()]
    content = file.read_bytes()
    at = -1
    for _ in range(occurrence):
        at = content.index(b'"value":"' + text.encode(), at + 1)
    at += len(b'"value":"')
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(bytes([content[at] ^ 0x01]))
    return file, at


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a killed server with three messages and their dead letters."""
    with ServerProcess(tmp_path_factory.mktemp("written") / "data") as server:
        assert server.client().post("/v1/topics", {"name": TOPIC}).status == 201
        give_up(server, "first", "second", "third")
        server.kill()
        return server.data


@pytest.fixture
def cold(written: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server on a copy of that, which has nothing of its messages in memory."""
    shutil.copytree(written, tmp_path / "data")
    with ServerProcess(tmp_path / "data") as started:
        yield started


def requires_the_end(server: ServerProcess, answer: Answer, file: Path, at: int) -> None:
    """503, and the server has stopped with file, position and the repair command."""
    assert answer.status == 503, answer
    assert answer.body["error"] == "UNAVAILABLE"
    assert server.wait_exit(30.0) != 0
    assert f"{file} is damaged at byte " in server.errors
    position = int(server.errors.split("is damaged at byte ")[1].split(":")[0])
    assert position <= at < position + 1_000
    assert f"driftq doctor --repair {server.log_folder}" in server.errors
    assert "Traceback" not in server.errors


READERS: dict[str, tuple[int, Callable[[Client], Answer]]] = {
    "the list of dead letters": (2, lambda client: client.get("/v1/dlq")),
    "dead letters": (2, lambda client: client.get(f"/v1/dlq/{TOPIC}")),
    "a redrive": (2, lambda client: client.post(f"/v1/dlq/{TOPIC}/redrive", {})),
    "a redrive by filter": (
        2,
        lambda client: client.post(f"/v1/dlq/{TOPIC}/redrive", {"filter": {"group": "g"}}),
    ),
    "a purge by filter": (
        2,
        lambda client: client.post(f"/v1/dlq/{TOPIC}/purge", {"filter": {"group": "g"}}),
    ),
    "explain": (1, lambda client: client.get(f"/v1/messages/{TOPIC}/0")),
    "explain of a letter": (2, lambda client: client.get(f"/v1/messages/{LETTERS}/0")),
    "a run": (1, lambda client: client.get("/v1/runs/r")),
    "records": (1, lambda client: client.get(f"/v1/topics/{TOPIC}/records")),
    "records of letters": (2, lambda client: client.get(f"/v1/topics/{LETTERS}/records")),
    "a produce that may be a duplicate": (
        1,
        lambda client: client.post(
            "/v1/produce",
            {"topic": TOPIC, "value": "first", "envelope": {"idempotency_key": "first"}},
        ),
    ),
}


@pytest.mark.clause("W4")
@pytest.mark.parametrize(
    ("reader", "segment"),
    [*((reader, "open") for reader in READERS), ("dead letters", "untouched"), ("explain", "untouched")],
)
def test_damage_stops_the_server_whoever_reads_it(cold: ServerProcess, reader: str, segment: str) -> None:
    occurrence, read = READERS[reader]
    client = cold.client()
    if segment == "open":  # Read before, so that its bytes come from the page cache, on the loop.
        assert len(client.get(f"/v1/topics/{TOPIC}/records").body.splitlines()) == 3
    file, at = damage(cold, "first", occurrence=occurrence)
    requires_the_end(cold, read(client), file, at)


@pytest.mark.clause("W4")
@pytest.mark.parametrize("reader", ["shows", "claims"])
def test_damage_of_a_job_stops_the_server_that_reads_it(server: ServerProcess, reader: str) -> None:
    client = server.client()
    made = client.post("/v1/jobs", {"queue": "q", "task": "t", "payload": {"note": "precious"}})
    assert made.status == 201
    job = made.body["job_id"]
    server.restart()
    client = server.client()
    [file] = [one for one in server.log_folder.glob("*.log") if b"precious" in one.read_bytes()]
    content = file.read_bytes()
    at = content.index(b"precious")
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(b"q")
    if reader == "shows":
        answer = client.get(f"/v1/jobs/{job}")
    else:
        answer = client.post("/v1/jobs/claim", {"queues": ["q"], "owner": "w", "lease_ms": 30_000, "max": 1})
    requires_the_end(server, answer, file, at)


@pytest.mark.clause("D6", "W4")
def test_a_page_of_dead_letters_does_not_read_what_is_not_on_it(cold: ServerProcess) -> None:
    file, at = damage(cold, "third", occurrence=2)
    client = cold.client()
    first = client.get(f"/v1/dlq/{TOPIC}", limit=1)
    assert [letter["value"] for letter in first.body["messages"]] == ["first"]
    assert len(client.get(f"/v1/dlq/{TOPIC}", limit=1, after=0).body["messages"]) == 1
    [listed] = client.get("/v1/dlq").body["dlqs"]
    assert listed["messages"] == 3
    assert client.post(f"/v1/dlq/{TOPIC}/redrive", {"offsets": [0]}).body["redriven"] == 1
    assert client.post(f"/v1/dlq/{TOPIC}/purge", {"offsets": [0]}).body["purged"] == 1
    requires_the_end(cold, client.get(f"/v1/dlq/{TOPIC}", after=1), file, at)


@pytest.mark.clause("D6", "W4")
def test_a_damaged_letter_can_still_be_purged(cold: ServerProcess) -> None:
    damage(cold, "second", occurrence=2)
    client = cold.client()
    assert client.post(f"/v1/dlq/{TOPIC}/purge", {"offsets": [1]}).body == {"matched": 1, "purged": 1}
    left = client.get(f"/v1/dlq/{TOPIC}").body["messages"]
    assert [letter["value"] for letter in left] == ["first", "third"]
