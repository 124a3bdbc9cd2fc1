"""A worker process with a topic for each step, which stops there and says so, to be killed.

`python mortal.py URL FOLDER EFFECT stops|finishes TOPIC[=DATABASE] …`: with a database the record of effects
is in its registry, else it is the broker's. The effect is a file that can be made once for each message, or a
row for a transactional one; with API in the environment it is a call of that API. Every run of a handler is a
line in `runs`, every settled message one in `settled`, and what stops says `at STEP` on stdout. A topic's
name ends in `.STEP`.
"""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import text

import driftq
from driftq.client import AsyncDelivery, AsyncIdempotency
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import open_database

LEASE_MS = 4_000
API = os.environ.get("API")
STEPS = ("before-begin", "after-begin", "after-effect", "before-commit", "before-ack")


def step_of(topic: str) -> str:
    return topic.rpartition(".")[2]


def say(step: str) -> None:
    """In one write: several threads say something, and `print` writes the end of its line by itself."""
    sys.stdout.write(f"at {step}\n")
    sys.stdout.flush()


def stop_at(step: str, owner: type, name: str, topic_of: Callable[..., str], *, before: bool = True) -> None:
    """Let a method stop for ever, before or after its work, for the topic of this step."""
    real = getattr(owner, name)

    def blocking(*args: Any, **named: Any) -> Any:
        if step_of(topic_of(*args, **named)) != step:
            return real(*args, **named)
        if not before:
            real(*args, **named)
        say(step)
        return threading.Event().wait()

    async def awaiting(*args: Any, **named: Any) -> Any:
        if step_of(topic_of(*args, **named)) != step:
            return await real(*args, **named)
        if not before:
            await real(*args, **named)
        say(step)
        return await asyncio.Event().wait()

    setattr(owner, name, awaiting if asyncio.iscoroutinefunction(real) else blocking)


def stop_at_each_step(effect: driftq.Effect, *, registry: bool) -> None:
    stop_at("before-ack", AsyncDelivery, "ack", lambda delivery: delivery.topic)
    if not registry:
        stop_at("before-begin", AsyncIdempotency, "begin", lambda _, **named: named["topic"])
        stop_at("after-begin", AsyncIdempotency, "begin", lambda _, **named: named["topic"], before=False)
        stop_at("before-commit", AsyncIdempotency, "mark_success", lambda _, begun, **named: begun.topic)
        return
    stop_at("before-begin", SqlRegistry, "claim", lambda _, handler, event: event.aggregate_type)
    stop_at("after-begin", SqlRegistry, "claim", lambda _, handler, event: event.aggregate_type, before=False)
    if effect is driftq.Effect.TRANSACTIONAL:  # The mark is the last thing before COMMIT.
        first = lambda _, claims, **named: claims[0].event.aggregate_type  # noqa: E731
        stop_at("before-commit", SqlRegistry, "mark_done_all", first, before=False)
    else:
        stop_at(
            "before-commit", SqlRegistry, "mark_done", lambda _, claim, **named: claim.event.aggregate_type
        )


def main(url: str, folder: Path, effect: driftq.Effect, *, stops: bool, sites: list[str]) -> None:
    client = driftq.Client(url)
    if stops:
        stop_at_each_step(effect, registry="=" in sites[0])

    keyed = effect is not driftq.Effect.UNKNOWN
    bank = driftq.HttpEffect(f"{API}/{'keyed' if keyed else 'plain'}", honours_keys=keyed) if API else None

    def note(one: driftq.Settled) -> None:
        with (folder / "settled").open("a") as settled:
            settled.write(json.dumps([one.message.value, one.result, one.duplicate]) + "\n")

    def perform(message: driftq.Message, context: driftq.Context) -> dict:
        with (folder / "runs").open("a") as runs:
            runs.write(f"{message.value}\n")
        if stops and step_of(message.topic) == "before-effect":
            say("before-effect")
            threading.Event().wait()
        if bank is not None:
            bank.post(context, json=message.value)
        elif context.transaction is not None:
            insert = text("INSERT INTO effects (name) VALUES (:name)")
            context.transaction.connection.execute(insert, {"name": message.value})
        else:
            try:
                os.close(os.open(folder / f"effect-{message.value}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass  # It happened before: that is what idempotent means.
        if stops and step_of(message.topic) == "after-effect":
            say("after-effect")
            threading.Event().wait()
        return {"done": message.value}

    for site in sites:
        topic, _, database = site.partition("=")
        registry = SqlRegistry(open_database(database)) if database else None
        worker = driftq.Worker(client, group="billing", lease_ms=LEASE_MS, registry=registry, on_settled=note)
        worker.on(topic, effect=effect, concurrency=2)(perform)
        worker.start()
    threading.Event().wait()


if __name__ == "__main__":
    main(
        sys.argv[1],
        Path(sys.argv[2]),
        driftq.Effect(sys.argv[3]),
        stops=sys.argv[4] == "stops",
        sites=sys.argv[5:],
    )
