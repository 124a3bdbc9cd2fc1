"""Schedules: create, replace, list, remove, pause and run them."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import quote

from driftq.client.wire.calls import Calls
from driftq.errors import InvalidArgument
from driftq.model import RetryPolicy
from driftq.model.wire.jobs import EnqueuedJob
from driftq.model.wire.queues import SchedulesReply, ScheduleView
from driftq.transport.paths import Query


class AsyncScheduleCalls:
    """The calls of `/v1/schedules`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def create(
        self,
        name: str,
        cron: str,
        *,
        queue: str,
        task: str,
        payload: Any = None,
        timezone: str = "UTC",
        missed: Literal["skip", "last", "all"] = "skip",
        priority: int | None = None,
        max_retries: int | None = None,
        timeout_ms: int | None = None,
        retry: RetryPolicy | None = None,
    ) -> ScheduleView:
        """Create a schedule; the same one again changes nothing. Raises ScheduleExists for other content."""
        body = _body(locals())
        view: ScheduleView = await self._call("POST", "", body={"name": name, **body})
        return view

    async def replace(
        self,
        name: str,
        cron: str,
        *,
        queue: str,
        task: str,
        payload: Any = None,
        timezone: str = "UTC",
        missed: Literal["skip", "last", "all"] = "skip",
        priority: int | None = None,
        max_retries: int | None = None,
        timeout_ms: int | None = None,
        retry: RetryPolicy | None = None,
    ) -> ScheduleView:
        """Create a schedule, or replace the one of this name."""
        body = _body(locals())
        view: ScheduleView = await self._call("PUT", _path(name), body=body)
        return view

    async def get(self, name: str) -> ScheduleView:
        """A schedule with its latest fire and its next one. Raises ScheduleNotFound."""
        view: ScheduleView = await self._call("GET", _path(name))
        return view

    async def list(self, *, limit: int | None = None, after: str | None = None) -> list[ScheduleView]:
        """Schedules by name, those after a name."""
        query: Query = {"limit": limit, "after": after}
        found: SchedulesReply = await self._calls.call(
            "GET", "/v1/schedules", query=query, repeatable=True, kind=SchedulesReply
        )
        return found.schedules

    async def remove(self, name: str) -> None:
        """Remove a schedule; its jobs stay. Raises ScheduleNotFound."""
        await self._call("DELETE", _path(name), repeatable=False, kind=Any)

    async def pause(self, name: str) -> ScheduleView:
        """Pause a schedule: fires due meanwhile are not made up for. Raises ScheduleNotFound."""
        view: ScheduleView = await self._call("POST", f"{_path(name)}/pause")
        return view

    async def resume(self, name: str) -> ScheduleView:
        """Resume a schedule with its next fire time. Raises ScheduleNotFound."""
        view: ScheduleView = await self._call("POST", f"{_path(name)}/resume")
        return view

    async def run(self, name: str) -> EnqueuedJob:
        """Enqueue the job of a schedule now, besides its fires. Raises ScheduleNotFound."""
        ran: EnqueuedJob = await self._call("POST", f"{_path(name)}/run", repeatable=False, kind=EnqueuedJob)
        return ran

    async def _call(
        self, method: str, path: str, *, body: Any = None, repeatable: bool = True, kind: Any = ScheduleView
    ) -> Any:
        return await self._calls.call(
            method, f"/v1/schedules{path}", body=body, repeatable=repeatable, kind=kind
        )


def _body(given: dict[str, Any]) -> dict[str, Any]:
    """The content of a schedule, without what was not given."""
    retry: RetryPolicy | None = given["retry"]
    if retry is not None and (problem := retry.job_problem()):
        raise InvalidArgument("retry", problem)
    body = given | {"retry": None if retry is None else retry.job_fields()}
    return {name: value for name, value in body.items() if value is not None and name not in ("self", "name")}


def _path(name: str) -> str:
    return f"/{quote(name, safe='')}"
