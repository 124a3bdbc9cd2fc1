"""A worker process that stops at a named step and says so, to be killed there.

`python mortal.py URL FOLDER EFFECT STEP`: the effect is a file that can be made once for each key, every run
of the handler is a line in `runs`, and what stops says `at STEP` on stdout.
"""

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

from sqlalchemy import text

import driftq
from driftq.client import AsyncDelivery, AsyncIdempotency
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import open_database

LEASE_MS = 1_000
STEPS = ("before begin", "after begin", "after effect", "before commit", "before ack")


def stop_here(step: str) -> None:
    print(f"at {step}", flush=True)


def patch(owner: type, name: str, step: str, *, before: bool) -> None:
    """Let a coroutine method stop for ever before or after its work."""
    real = getattr(owner, name)

    async def stopping(self: Any, *args: Any, **named: Any) -> Any:
        if not before:
            await real(self, *args, **named)
        stop_here(step)
        await asyncio.Event().wait()

    setattr(owner, name, stopping)


def main(url: str, folder: Path, effect: driftq.Effect, step: str) -> None:
    if step in ("before begin", "after begin") and effect is not driftq.Effect.TRANSACTIONAL:
        patch(AsyncIdempotency, "begin", step, before=step == "before begin")
    if step == "before commit":
        patch(AsyncIdempotency, "mark_success", step, before=True)
    if step == "before ack":
        patch(AsyncDelivery, "ack", step, before=True)
    registry = None
    if effect is driftq.Effect.TRANSACTIONAL:
        registry = SqlRegistry(open_database(f"sqlite:///{folder / 'effects.db'}"))
        with registry.database.transaction() as transaction:
            transaction.connection.execute(text("CREATE TABLE IF NOT EXISTS effects (name TEXT)"))
    worker = driftq.Worker(driftq.Client(url), group="billing", lease_ms=LEASE_MS, registry=registry)

    @worker.on("orders", effect=effect, concurrency=2)
    def perform(message: driftq.Message, context: driftq.Context) -> dict:
        with (folder / "runs").open("a") as runs:
            runs.write(f"{message.value}\n")
        if context.transaction is not None:
            insert = text("INSERT INTO effects (name) VALUES (:name)")
            context.transaction.connection.execute(insert, {"name": message.value})
        else:
            try:
                os.close(os.open(folder / f"effect-{message.value}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass  # It happened before: that is what idempotent means.
        if step == "after effect":
            stop_here(step)
            threading.Event().wait()
        return {"done": message.value}

    print("works", flush=True)
    worker.run()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), driftq.Effect(sys.argv[3]), sys.argv[4])
