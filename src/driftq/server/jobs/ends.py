"""Requests that wait for the end of a job.

The table of jobs notes the end of each job that is waited for, whatever ended it: a worker, a lease that is
over, a cancellation. The waiting requests are then answered with the commit that made the end durable, so
nothing is polled, and a turn costs nothing for jobs that nobody waits for.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count

from driftq.core.jobs.table import JobState, JobTable
from driftq.errors import DriftQError
from driftq.server.requests import Reply
from driftq.server.turn import Turn

_ENDED = (None, JobState.SUCCEEDED, JobState.DEAD)


@dataclass(frozen=True, slots=True, eq=False)
class EndRequest:
    """Wait for the end of a job; answered by None when it has ended, is unknown, or the time is over."""

    offset: int
    until: int
    """In engine time."""
    reply: Reply


class EndWaiters:
    """The requests that wait, by job and by time."""

    def __init__(self) -> None:
        self._new: list[EndRequest] = []
        self._by_job: dict[int, list[EndRequest]] = {}
        self._by_time: list[tuple[int, int, EndRequest]] = []
        """A heap; it may have requests that are answered."""
        self._numbers = count()
        self._stopping = False

    @property
    def pending(self) -> bool:
        return bool(self._new)

    @property
    def next_at(self) -> int | None:
        """When a request has waited long enough."""
        while self._by_time:
            until, _, request = self._by_time[0]
            if request in self._by_job.get(request.offset, ()):
                return until
            heapq.heappop(self._by_time)
        return None

    def submit(self, request: EndRequest) -> None:
        self._new.append(request)

    def begin(self, jobs: JobTable) -> None:
        """Before the decisions of a turn; the state may be another one than in the last turn."""
        jobs.awaited = self._by_job

    def decide(self, turn: Turn) -> None:
        """After them: answer requests about jobs that have ended, and those that waited long enough."""
        jobs = turn.state.jobs
        if not (self._new or self._by_time or jobs.awaited_ends):
            return
        for request in self._new:
            if self._stopping or request.until <= turn.now or jobs.state(request.offset) in _ENDED:
                turn.reply(request, None)
            else:
                self._by_job.setdefault(request.offset, []).append(request)
                heapq.heappush(self._by_time, (request.until, next(self._numbers), request))
        self._new = []
        if jobs.awaited_ends:
            for offset in jobs.awaited_ends:
                for request in self._by_job.pop(offset, ()):
                    turn.reply(request, None)
            jobs.awaited_ends = []
        while (at := self.next_at) is not None and at <= turn.now:
            request = heapq.heappop(self._by_time)[2]
            self._remove(request)
            turn.reply(request, None)

    def withdraw(self, request: EndRequest) -> None:
        """The client of this request has disconnected."""
        self._new = [one for one in self._new if one is not request]
        self._remove(request)

    def stop(self) -> None:
        """The server stops: answer everything, and let nothing wait from now on."""
        self._stopping = True
        for request in self._take_all():
            request.reply(None)

    def reject(self, error: DriftQError) -> None:
        for request in self._take_all():
            request.reply(error)

    def _take_all(self) -> list[EndRequest]:
        taken = [*self._new, *(request for requests in self._by_job.values() for request in requests)]
        self._new = []
        self._by_job.clear()  # The table of jobs refers to it.
        self._by_time.clear()
        return taken

    def _remove(self, request: EndRequest) -> None:
        requests = self._by_job.get(request.offset, [])
        if request in requests:
            requests.remove(request)
            if not requests:
                del self._by_job[request.offset]
