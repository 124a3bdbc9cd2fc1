"""What happened to a message, and to a run, as a client sees it."""

from __future__ import annotations

from urllib.parse import quote

from driftq.client.wire.calls import Calls
from driftq.model.wire.explain import ExplainedMessage, ExplainedRun


async def explain(calls: Calls, topic: str, offset: int) -> ExplainedMessage:
    path = f"/v1/messages/{quote(topic, safe='')}/{offset}"
    message: ExplainedMessage = await calls.call("GET", path, repeatable=True, kind=ExplainedMessage)
    return message


async def explain_run(calls: Calls, run_id: str) -> ExplainedRun:
    path = f"/v1/runs/{quote(run_id, safe='')}"
    run: ExplainedRun = await calls.call("GET", path, repeatable=True, kind=ExplainedRun)
    return run
