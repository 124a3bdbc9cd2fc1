"""`driftq.steps` on a broker in memory whose clock the test moves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import driftq
from driftq.steps import AsyncRun, NothingHappened, Run


@pytest.fixture
def client(tmp_path: Path) -> Iterator[driftq.Client]:
    with driftq.open(tmp_path / "data") as broker:
        yield broker


@pytest.mark.clause("I11")
def test_a_step_runs_once_and_returns_its_result_to_each_later_run(client: driftq.Client) -> None:
    ran: list[int] = []
    for _ in range(3):
        run = Run(client, "order-17")
        with run.step("charge") as step:
            if not step.done:
                ran.append(1)
                step.finish({"charge": ("ch", 1)})
        assert step.done
        assert step.result == {"charge": ["ch", 1]}, "as JSON gives it, also to the run that made it"
    assert ran == [1]


@pytest.mark.clause("I11")
def test_a_call_and_a_decorated_function_run_once(client: driftq.Client) -> None:
    run = Run(client, "order-18")
    ran: list[str] = []

    def charge(amount: int, *, to: str) -> str:
        ran.append("charge")
        return f"{amount} to {to}"

    @run.step
    def search() -> list[str]:
        ran.append("search")
        return ["a"]

    @run.step("mail", effect="idempotent", ttl=60)
    def mail(to: str) -> str:
        ran.append("mail")
        return to

    for _ in range(2):
        assert run.call("charge", charge, 5, to="ada") == "5 to ada"
        assert search() == ["a"]
        assert mail("ada") == "ada"
    assert ran == ["charge", "search", "mail"]


@pytest.mark.clause("I11")
def test_an_error_in_an_unknown_step_asks_for_a_decision(client: driftq.Client) -> None:
    run = Run(client, "order-19")
    with pytest.raises(ConnectionError), run.step("charge"):
        raise ConnectionError("the answer was lost")
    with pytest.raises(driftq.StepUnknown) as unknown, run.step("charge"):
        raise AssertionError("the block must not run")
    assert (unknown.value.run_id, unknown.value.step) == ("order-19", "charge")
    run.resolve("charge", happened=True, result="ch-1")
    assert run.call("charge", lambda: "again") == "ch-1"
    with pytest.raises(driftq.EffectDone):
        run.resolve("charge", happened=False)


@pytest.mark.clause("I11")
@pytest.mark.parametrize("effect", ["unknown", "idempotent"])
def test_a_step_that_says_that_nothing_happened_may_run_again(client: driftq.Client, effect: Any) -> None:
    run = Run(client, f"order-20-{effect}")
    with pytest.raises(NothingHappened), run.step("charge", effect=effect):
        raise NothingHappened("the card was declined")
    status = client.idempotency.status(**run._awaited.identity("charge"))
    assert (status.status, status.last_error) == ("FAILED", "NothingHappened: the card was declined")
    assert run.call("charge", lambda: "done", effect=effect) == "done"


@pytest.mark.clause("I11")
def test_an_error_in_an_idempotent_step_lets_it_run_again(client: driftq.Client) -> None:
    run = Run(client, "order-21")
    with pytest.raises(ValueError, match="boom"), run.step("index", effect="idempotent"):
        raise ValueError("boom")
    assert run.call("index", lambda: 1, effect="idempotent") == 1


def test_a_block_without_a_result_is_an_error(client: driftq.Client) -> None:
    run = Run(client, "order-22")
    with pytest.raises(driftq.StepUnfinished), run.step("charge"):
        pass
    with pytest.raises(driftq.StepUnknown), run.step("charge"):
        pass


def test_a_result_that_is_not_json_is_refused_and_leaves_the_step_unknown(client: driftq.Client) -> None:
    run = Run(client, "order-23")
    with pytest.raises(driftq.InvalidArgument), run.step("charge") as step:
        step.finish(object())
    with pytest.raises(driftq.StepUnknown), run.step("charge"):
        pass


@pytest.mark.clause("I11")
def test_while_one_process_is_at_a_step_another_waits_for_its_result(client: driftq.Client) -> None:
    first, second = Run(client, "order-24"), Run(client, "order-24")
    with first.step("charge") as step:
        with pytest.raises(driftq.StepHeld), second.step("charge", wait=0):
            raise AssertionError("the block must not run")
        results: list[object] = []
        waiting = threading.Thread(target=lambda: results.append(second.call("charge", lambda: "again")))
        waiting.start()
        step.finish("once")
    waiting.join(30)
    assert results == ["once"]


@pytest.mark.clause("I11")
def test_a_long_block_keeps_its_step(client: driftq.Client) -> None:
    run = Run(client, "order-25", lease_ms=150)
    with run.step("charge") as step:
        identity = run._awaited.identity("charge")
        until = client.idempotency.status(**identity).lease_until
        end = threading.Event()
        for _ in range(200):
            if client.idempotency.status(**identity).lease_until > until:
                break
            end.wait(0.02)
        assert client.idempotency.status(**identity).status == "PENDING"
        step.finish("done")
    assert not step.lost


@pytest.mark.clause("I11")
def test_steps_inside_a_step_are_its_children(client: driftq.Client) -> None:
    run = Run(client, "order-26")
    with run.step("plan", effect="idempotent") as plan:
        run.call("search", lambda: ["a"])
        with run.step("pay", parent="search") as pay:
            pay.finish(1)
        plan.finish("planned")
    run.call("mail", lambda: None)
    steps = {step.step_id: step for step in client.explain_run("order-26").steps}
    parents = {name: step.parent_step_id for name, step in steps.items()}
    assert parents == {"plan": None, "search": "plan", "pay": "search", "mail": None}
    assert steps["pay"].depth == 2
    assert {step.state for step in steps.values()} == {"done"}


@pytest.mark.parametrize("run_id", ["", "a/b"])
def test_a_run_id_that_would_mix_with_step_keys_is_refused(client: driftq.Client, run_id: str) -> None:
    with pytest.raises(driftq.InvalidArgument):
        Run(client, run_id)


@pytest.mark.clause("I11")
async def test_steps_on_an_event_loop(tmp_path: Path) -> None:
    async with await driftq.open_async(tmp_path / "data") as client:
        run = AsyncRun(client, "order-27")
        ran: list[str] = []

        async def charge() -> str:
            ran.append("charge")
            return "ch-1"

        for _ in range(2):
            async with run.step("plan") as plan:
                if not plan.done:
                    await plan.finish(await run.call("charge", charge))
            assert plan.result == "ch-1"
        assert ran == ["charge"]
        with pytest.raises(ValueError, match="boom"):
            async with run.step("mail"):
                raise ValueError("boom")
        with pytest.raises(driftq.StepUnknown):
            async with run.step("mail"):
                pass
        shown = await client.explain_run("order-27")
        assert {step.step_id: step.parent_step_id for step in shown.steps}["charge"] == "plan"
