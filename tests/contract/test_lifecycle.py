"""A server that starts, says what it is, stops, dies and comes back."""

import socket
import threading
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.contract.serving import Server


@pytest.mark.clause("H1", "W7")
def test_a_server_says_what_it_is(server: Server, small_server: Server) -> None:
    assert server.get("/v1/healthz").json == {"status": "ok"}
    assert server.get("/v1/readyz").json == {"status": "ready"}
    version = server.get("/v1/version").json
    assert version == {"version": "dev", "commit": "unknown", "wal_enabled": True, "fsync": "always"}
    assert small_server.get("/v1/version").json["wal_enabled"] is False


@pytest.mark.clause("T2", "R4", "E1", "W2")
def test_everything_is_there_after_a_kill(tmp_path: Path) -> None:
    with Server(tmp_path / "log", router="tests.contract.routers:route") as server:
        topic, empty = server.new_topic(3), server.new_topic(7)
        server.produce(topic, "label x", "user:1", run_id="r", deadline="2099-01-01T00:00:00Z")
        server.produce(topic, "plain", "user:2", idempotency_key="k")
        before = server.get(f"/v1/topics/{topic}/records").content
        server.kill()
        server.start()
        assert server.get("/v1/topics").json == {"topics": sorted([topic, empty])}
        assert len(server.get(f"/v1/topics/{empty}").json["partitions"]) == 7
        assert server.get(f"/v1/topics/{topic}/records").content == before
        assert server.produce(topic, "plain", "user:2", idempotency_key="k")["duplicate"] is True
        assert server.produce(topic, "next")["offset"] == 2


@pytest.mark.clause("G4", "G5", "A3", "D1")
def test_leases_and_acks_outlive_a_kill(tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server:
        topic = server.new_topic()
        for number in range(3):
            server.produce(topic, str(number))
        with server.consume(topic, lease_ms=600_000) as stream:
            lines = stream.take(3)
        assert server.settle("ack", topic, lines[1]).status == 204
        server.kill()
        server.start()
        assert server.settle("ack", topic, lines[2], attempt=1).status == 204
        assert server.settle("lease/extend", topic, lines[0], lease_ms=100).status == 204
        with server.consume(topic, owner="next", lease_ms=60_000) as stream:
            line = stream.next()
            assert (line["offset"], line["attempts"]) == (0, 2)
            assert server.settle("ack", topic, line, owner="next").status == 204
            assert stream.is_quiet(100)
        assert server.get(f"/v1/topics/{topic}").json["groups"][0]["lag"] == 0


@pytest.mark.clause("W7")
def test_without_a_log_nothing_is_kept(tmp_path: Path) -> None:
    with Server(None) as server:
        server.new_topic()
        assert server.terminate()[0] == 0
        server.start()
        assert server.get("/v1/topics").json == {"topics": []}


@pytest.mark.clause("H6", "H3")
def test_sigterm_ends_streams_and_loses_nothing(tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server:
        topic = server.new_topic()
        confirmed: list[int] = []
        stop = threading.Event()

        def write() -> None:
            client = Server(None)
            client.port = server.port
            try:
                while not stop.is_set():
                    answer = client.post("/v1/produce", {"topic": topic, "value": "v"})
                    if answer.status != 200:
                        answer.refused(503, "UNAVAILABLE")
                        return
                    confirmed.append(answer.json["offset"])
            except (OSError, HTTPException):
                return
            finally:
                client.hang_up()

        with server.consume(topic, prefetch=1_000_000, lease_ms=60_000) as stream:
            writers = [threading.Thread(target=write) for _ in range(4)]
            for writer in writers:
                writer.start()
            stream.take(50)
            ended = []
            reader = threading.Thread(target=lambda: ended.append(stream.rest()))
            reader.start()
            code, errors = server.terminate()
            reader.join(30)
            stop.set()
            for writer in writers:
                writer.join(30)
        assert code == 0, errors
        assert len(ended) == 1, "the stream did not end with its last chunk"
        server.start()
        stored = [line["offset"] for line in server.get(f"/v1/topics/{topic}/records").lines]
        assert set(confirmed) <= set(stored)


@pytest.mark.clause("H6")
def test_idle_and_stuck_clients_do_not_hold_up_the_end(tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server:
        topic = server.new_topic()
        messages = [{"topic": topic, "value": "x" * 50_000}] * 100
        assert server.post("/v1/produce/batch", {"messages": messages}).status == 200
        with server.consume(topic, prefetch=1000), server.open() as idle, server.open() as half:
            half.sendall(b"GET /v1/hea")
            stuck = server.open()
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.sendall(b"GET /v1/topics/%b/records HTTP/1.1\r\nHost: localhost\r\n\r\n" % topic.encode())
            assert stuck.recv(100)
            code, errors = server.terminate()
            assert idle.recv(100) == b""
            stuck.close()
        assert code == 0, errors


@pytest.mark.clause("W6")
def test_a_second_server_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with Server(tmp_path / "log"), pytest.raises(AssertionError, match="in use by another"):
        Server(tmp_path / "log").start()


@pytest.mark.clause("W4")
def test_a_damaged_message_is_not_shown_and_stops_the_server(tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server:
        topic = server.new_topic()
        server.produce(topic, "precious")
        assert server.terminate()[0] == 0
        server.start()
        (segment,) = [path for path in (tmp_path / "log").iterdir() if b"precious" in path.read_bytes()]
        with segment.open("r+b") as file:
            file.seek(segment.read_bytes().index(b"precious"))
            file.write(b"specious")
        server.get(f"/v1/topics/{topic}/records").refused(503, "UNAVAILABLE")
        code, errors = server.wait()
        assert code == 1
        assert "checksum" in errors


@pytest.mark.clause("H5")
def test_numbers_can_be_scraped(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "four")
    with server.consume(topic, group="readers") as stream:
        stream.next()
        answer = server.get("/v1/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = answer.content.decode().splitlines()
    assert f'driftq_topic_messages{{topic="{topic}"}} 1.0' in lines
    assert f'driftq_topic_bytes{{topic="{topic}"}} 4.0' in lines
    assert f'driftq_group_lag{{group="readers",topic="{topic}"}} 1.0' in lines
    assert f'driftq_group_in_flight{{group="readers",topic="{topic}"}} 1.0' in lines
    for name in ("produced", "delivered", "commits", "requests"):
        assert any(line.startswith(f"driftq_{name}_total ") for line in lines), name
    assert "driftq_committed_bytes_total 0.0" not in lines


@pytest.mark.clause("H5", "H2")
def test_the_document_names_every_route_and_its_errors(server: Server) -> None:
    document = server.get("/v1/openapi.json").json
    assert document["openapi"].startswith("3.1")
    routes = {(method, path) for path, methods in document["paths"].items() for method in methods}
    eight = {("get", "/v1/healthz"), ("get", "/v1/version"), ("get", "/v1/topics"), ("post", "/v1/topics")}
    eight |= {("post", "/v1/produce"), ("get", "/v1/consume"), ("post", "/v1/ack"), ("post", "/v1/nack")}
    assert eight <= routes
    produce = document["paths"]["/v1/produce"]["post"]
    assert set(produce["responses"]) == {
        *("200", "400", "401", "403", "404", "408", "409", "413", "429", "503"),
    }
    assert {"topic", "idem_key", "retry_backoff_ms"} <= {one["name"] for one in produce["parameters"]}
    envelope = document["components"]["schemas"]["EnvelopeBody"]
    assert envelope["additionalProperties"] is False
    assert "labels" not in envelope["properties"]


@pytest.mark.clause("H5")
def test_the_page_needs_nothing_from_elsewhere(server: Server) -> None:
    page = server.get("/v1/docs")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"openapi.json" in page.content
    assert b"http:" not in page.content
    assert b"https:" not in page.content


@pytest.mark.clause("H3")
def test_a_stream_ends_with_the_server(tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server:
        topic = server.new_topic()
        with server.consume(topic) as stream:
            ends: list[bytes] = []

            def read() -> None:
                ends.append(stream.rest())

            reader = threading.Thread(target=read)
            reader.start()
            server.terminate()
            reader.join(30)
        assert ends == [b""]
