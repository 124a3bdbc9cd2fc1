"""Limits that a task declares for its queue: its worker sets them on the server when it starts.

The server keeps them, so they hold over all workers. Of several workers that declare one queue differently
the last one to start decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from driftq.client import AsyncClient
from driftq.errors import InvalidArgument
from driftq.worker.task_options.registering import until_accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """The limits of a queue and of each of its limit keys; what is not given is not limited.

    A rate is a number of claims and a number of seconds: no window of that length has more claims.
    """

    concurrency: int | None = None
    rate: tuple[int, float] | None = None
    key_concurrency: int | None = None
    key_rate: tuple[int, float] | None = None


class DeclaredLimits:
    """The limits of queues, each declared by one task or alike by several."""

    def __init__(self) -> None:
        self._of_queue: dict[str, JobLimits] = {}

    def declare(self, queue: str, limits: JobLimits) -> None:
        """Raises InvalidArgument where another task has declared other limits for the queue."""
        if self._of_queue.setdefault(queue, limits) != limits:
            raise InvalidArgument("limits", f"of queue {queue!r} are declared differently by another task")

    async def register(self, client: AsyncClient) -> None:
        """Set them on the server, which may still be away; raises what waiting cannot mend."""
        for queue, one in self._of_queue.items():
            await until_accepted(f"limits of queue {queue}", partial(_limit, client, queue, one))


async def _limit(client: AsyncClient, queue: str, limits: JobLimits) -> None:
    await client.queues.limit(
        queue,
        concurrency=limits.concurrency,
        rate=limits.rate,
        key_concurrency=limits.key_concurrency,
        key_rate=limits.key_rate,
    )
