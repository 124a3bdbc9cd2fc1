"""The routers that ship, on a real server: rules, decisions that stay, and slow ones that hold nobody up."""

import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import driftq
from tests.harness import Broken, ServerProcess

RULES = """
[[rule]]
match.topic = "inbox"
match.json = { urgent = true }
label = "urgent"
target_topic = "hot"

[[rule]]
match.topic = "inbox"
target_topic = "cold"
"""

SLOW = """
import itertools, pathlib, time
from driftq import RoutingDecision
numbers = itertools.count(1)
def route(topic, message):
    while message.value == "slow" and not pathlib.Path(__file__).with_name("go-on").exists():
        time.sleep(0.01)
    return RoutingDecision(label=f"asked {next(numbers)}")
route.topics = {"routed"}
"""

ENDLESS = """
import pathlib, threading
def route(topic, message):
    pathlib.Path(__file__).with_name(f"asked-{message.value}").touch()
    threading.Event().wait()
"""


@pytest.mark.clause("H6", "R2")
def test_a_router_that_never_returns_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(driftq.__file__).parents[1]}")
    options = ("--router", "endless:route", "--router-timeout-ms", "60000")
    with ServerProcess(tmp_path / "data", *options) as server:
        assert server.client().post("/v1/topics", {"name": "routed"}).status == 201
        answers: dict[str, int] = {}

        def produce(value: str) -> None:
            with suppress(*Broken):  # One that the server has not taken when it ends gets no answer.
                body = {"topic": "routed", "value": value}
                answers[value] = server.client().post("/v1/produce", body).status

        # More than the router has threads.
        waiting = [threading.Thread(target=produce, args=(str(number),)) for number in range(10)]
        for one in waiting:
            one.start()
        end = time.monotonic() + 30
        while len(asked := {file.name.removeprefix("asked-") for file in tmp_path.glob("asked-*")}) < 8:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert server.terminate(within_s=30) == 0
        for one in waiting:
            one.join()
        assert asked <= set(answers)
        assert set(answers.values()) == {503}
        assert "Traceback" not in server.errors


@pytest.mark.clause("R6", "R7", "R4")
def test_rules_route_and_a_retry_keeps_the_decision_also_across_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    with ServerProcess(tmp_path / "data", "--router-rules", str(file)) as server:  # noqa: SIM117
        with driftq.Client(f"http://127.0.0.1:{server.port}") as client:
            for name in ("hot", "cold"):
                client.create_topic(name)
            first = client.produce("inbox", {"urgent": True}, idempotency_key="k")
            assert (first.topic, first.duplicate) == ("hot", False), "a topic that exists by its rules alone"
            assert client.produce("inbox", {"urgent": False}).topic == "cold"
            file.write_text("[[rule]]\nmatch.topic = 'inbox'\nlabel = 'other'\ntarget_topic = 'cold'\n")
            server.restart()
            again = client.produce("inbox", {"urgent": True}, idempotency_key="k")
            assert (again.topic, again.offset, again.duplicate) == ("hot", first.offset, True)
            assert [one.routing.label for one in client.records("hot") if one.routing] == ["urgent"]


@pytest.mark.clause("R6", "R7")
def test_a_slow_router_holds_up_nobody_who_does_not_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(driftq.__file__).parents[1]}")
    options = ("--router", "slow:route", "--router-timeout-ms", "60000")
    with ServerProcess(tmp_path / "data", *options) as server:  # noqa: SIM117
        with driftq.Client(f"http://127.0.0.1:{server.port}") as client:
            client.create_topic("routed")
            client.create_topic("plain")
            slow = threading.Thread(
                target=client.call,
                args=("POST", "/v1/produce"),
                kwargs={"body": {"topic": "routed", "value": "slow"}},
            )
            slow.start()
            for _ in range(5):
                client.produce("plain", "v")
            assert slow.is_alive()
            (tmp_path / "go-on").touch()
            slow.join()
            for _ in range(2):
                client.produce("routed", "v", idempotency_key="k")
            labels = [one.routing.label for one in client.records("routed") if one.routing]
            assert labels == ["asked 1", "asked 2"]


@pytest.mark.clause("R6")
@pytest.mark.parametrize(
    "options",
    [
        ("--router-rules", "no-such-file.toml"),
        ("--router-url", "nonsense"),
        ("--router-url", "http://h/", "--router", "a:b"),
        ("--router-topic", "t"),
    ],
)
def test_a_router_that_cannot_be_asked_refuses_the_start(tmp_path: Path, options: tuple[str, ...]) -> None:
    server = ServerProcess(tmp_path / "data", *options)
    server.spawn()
    assert server.wait_exit() == 1
    assert server.errors.startswith("error: ")
    assert server.errors.count("\n") == 1
