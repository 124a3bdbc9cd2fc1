"""Schedules that a worker declares: it registers them with the server when it starts.

The server fires them, so they fire whether or not a worker runs. Of several workers that declare one schedule
differently the last one to start decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from driftq.client import AsyncClient
from driftq.model import RetryPolicy
from driftq.worker.task_options.registering import until_accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSchedule:
    """A task that runs at the times of a cron expression."""

    name: str
    cron: str
    timezone: str
    queue: str
    task: str
    missed: Literal["skip", "last", "all"]
    priority: int | None
    max_retries: int | None
    timeout_ms: int | None
    retry: RetryPolicy | None


async def register_schedules(client: AsyncClient, schedules: Iterable[DeclaredSchedule]) -> None:
    """Create or replace them on the server, which may still be away; raises what waiting cannot mend."""
    for one in schedules:
        await until_accepted(f"schedule {one.name}", partial(_replace, client, one))


async def _replace(client: AsyncClient, one: DeclaredSchedule) -> None:
    await client.schedules.replace(
        one.name,
        one.cron,
        queue=one.queue,
        task=one.task,
        payload={},
        timezone=one.timezone,
        missed=one.missed,
        priority=one.priority,
        max_retries=one.max_retries,
        timeout_ms=one.timeout_ms,
        retry=one.retry,
    )
