"""Jobs in the engine's turn: what was asked of them is decided together, and claims may wait for work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from driftq.core.jobs.decide import decide_claim, decide_job_expiries, decide_settlements
from driftq.core.jobs.records import JobsClaimed, JobsEnqueued, JobTerms
from driftq.core.jobs.table import JOBS_TOPIC, JobTable
from driftq.core.keys import MessageRef, fingerprint
from driftq.core.records import TopicCreated
from driftq.core.state import Topic
from driftq.errors import DriftQError, NotConfirmed
from driftq.model import TopicOptions
from driftq.model.job import JobRequest, job_id
from driftq.model.wire.jobs import EnqueuedJob
from driftq.server.counters import Counters
from driftq.server.jobs.entries import JobEntries
from driftq.server.jobs.requests import (
    ClaimRequest,
    EnqueueRequest,
    JobAction,
    JobAsk,
    JobsGranted,
    SettleRequest,
)
from driftq.server.requests import Reply
from driftq.storage.job_entry import encode_job, is_same
from driftq.storage.journal import Journal

_TOGETHER_BYTES = 4 << 20

Replies = list[tuple[Reply, Any]]


@dataclass(slots=True)
class _Asked:
    enqueues: list[EnqueueRequest] = field(default_factory=list)
    claims: list[ClaimRequest] = field(default_factory=list)
    settles: list[SettleRequest] = field(default_factory=list)
    actions: list[JobAction] = field(default_factory=list)


class JobsStage:
    """The jobs' part of a turn."""

    def __init__(
        self,
        journal: Journal,
        entries: JobEntries,
        *,
        counters: Counters,
        draw: Callable[[], float],
        again: Callable[[JobAsk, NotConfirmed | None], None],
    ) -> None:
        self._journal = journal
        self._entries = entries
        self._counters = counters
        self._draw = draw
        self._again = again
        self._asked = _Asked()
        self._waiting: list[ClaimRequest] = []
        self._stopping = False
        self._lead_ms = 0
        """How far engine time was ahead of the wall clock in the latest turn."""

    @property
    def _jobs(self) -> JobTable:
        return self._journal.state.jobs

    def ask(self, request: JobAsk) -> None:
        match request:
            case EnqueueRequest():
                self._asked.enqueues.append(request)
            case ClaimRequest():
                self._asked.claims.append(request)
            case SettleRequest():
                self._asked.settles.append(request)
            case JobAction():
                self._asked.actions.append(request)

    def refuse(self, error: DriftQError) -> None:
        """Answer everything that waits with this."""
        asked, self._asked = self._asked, _Asked()
        waiting, self._waiting = self._waiting, []
        everybody: list[JobAsk] = [
            *asked.enqueues,
            *asked.claims,
            *asked.settles,
            *asked.actions,
            *waiting,
        ]
        for request in everybody:
            request.reply(error)

    def is_asked(self) -> bool:
        asked = self._asked
        return bool(asked.enqueues or asked.claims or asked.settles or asked.actions)

    def next_at(self) -> int | None:
        """When to look again without being asked.

        A `run_at` is put into engine time here. Should the wall clock move before then, the next turn says
        another time, and the engine has one at least once a tick.
        """
        times = [self._jobs.next_end()]
        if self._waiting:
            times.append(min(request.until for request in self._waiting))
            queues = {queue for request in self._waiting for queue in request.queues}
            times += [self._jobs.next_due(queue, lead_ms=self._lead_ms) for queue in queues]
        return min((at for at in times if at is not None), default=None)

    def release_waiting(self) -> None:
        """Whoever waits for work gets none, now or later: the server stops."""
        self._stopping = True
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            request.reply(None)

    def turn(self, replies: Replies, now: int, *, wall: int, quiet: bool) -> None:
        """Decide everything that was asked. When quiet, nothing is done that nobody asked for."""
        self._lead_ms = now - wall
        asked, self._asked = self._asked, _Asked()
        self._jobs.expire(now)
        if asked.settles:
            self._settle(asked.settles, replies, now)
        for action in asked.actions:
            self._act(action, replies, now, wall)
        if not quiet:
            for record in decide_job_expiries(self._jobs, now=now, draw=self._draw):
                self._journal.add(record)
        if asked.enqueues:
            self._enqueue(asked.enqueues, replies, now, wall)
        if self._waiting:
            self._serve_waiting(replies, now, wall)
        for claim in asked.claims:
            self._claim(claim, replies, now, wall)

    def _serve_waiting(self, replies: Replies, now: int, wall: int) -> None:
        """Those whose queues have work, first come first served, and those who waited long enough."""
        queues = {queue for request in self._waiting for queue in request.queues}
        due = ((queue, self._jobs.next_due(queue, lead_ms=now - wall)) for queue in queues)
        ready = {queue for queue, at in due if at is not None and at <= now}
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            if request.until <= now or not ready.isdisjoint(request.queues):
                self._claim(request, replies, now, wall)
            else:
                self._waiting.append(request)

    def _settle(self, requests: list[SettleRequest], replies: Replies, now: int) -> None:
        settlements = [one for request in requests for one in request.settlements]
        completed, failed, outcomes = decide_settlements(self._jobs, settlements, now=now, draw=self._draw)
        for record in (completed, failed):
            if record is not None:
                self._journal.add(record)
        self._counters.jobs_completed += len(completed.offsets) if completed is not None else 0
        start = 0
        for request in requests:
            stop = start + len(request.settlements)
            replies.append((request.reply, outcomes[start:stop]))
            start = stop

    def _act(self, action: JobAction, replies: Replies, now: int, wall: int) -> None:
        answer: DriftQError | None = None
        try:
            self._journal.add(action.decide(self._jobs, now, wall))
        except DriftQError as refused:
            answer = refused
        replies.append((action.reply, answer))

    def _claim(self, request: ClaimRequest, replies: Replies, now: int, wall: int) -> None:
        answer: JobsGranted | DriftQError | None = None
        try:
            record = decide_claim(
                self._jobs,
                request.queues,
                owner=request.owner,
                lease_ms=request.lease_ms,
                limit=request.limit,
                now=now,
                wall=wall,
            )
            if record is not None:
                answer = self._grant(record)
            elif now < request.until and not self._stopping:
                self._waiting.append(request)
                return
        except DriftQError as refused:
            answer = refused
        replies.append((request.reply, answer))

    def _grant(self, record: JobsClaimed) -> JobsGranted:
        """As many of these as make an answer of a bounded size."""
        index = self._journal.state.topics[JOBS_TOPIC].partitions[0].index
        size = 0
        for count, offset in enumerate(record.offsets):
            ordinal = index.find(offset)
            size += index.place_at(ordinal).length if ordinal is not None else 0
            if size > _TOGETHER_BYTES and count:
                del record.offsets[count:]
                break
        self._journal.add(record)
        jobs = self._jobs
        return JobsGranted(record, [jobs.attempts[offset - jobs.base] for offset in record.offsets])

    def forget(self, reply: Reply) -> None:
        """Whoever asked for work with this answer is gone."""
        self._waiting = [request for request in self._waiting if request.reply is not reply]
        self._asked.claims = [request for request in self._asked.claims if request.reply is not reply]

    # Enqueueing

    def _enqueue(self, requests: list[EnqueueRequest], replies: Replies, now: int, wall: int) -> None:
        ready: list[EnqueueRequest] = []
        for request in requests:
            cold = self._entries.cold(self._holders(job) for job in request.jobs if job.idempotency_key)
            if cold:
                self._entries.fetch(cold, lambda error, request=request: self._again(request, error))  # type: ignore[misc]
            else:
                ready.append(request)
        jobs = [job for request in ready for job in request.jobs]
        if not jobs:
            return
        outcomes = self._store(jobs, now, wall)
        start = 0
        for request in ready:
            stop = start + len(request.jobs)
            replies.append((request.reply, outcomes[start:stop]))
            start = stop

    def _holders(self, job: JobRequest) -> list[MessageRef]:
        topic = self._journal.state.topics.get(JOBS_TOPIC)
        if topic is None:
            return []
        return [
            MessageRef(topic.id, offset)
            for offset in self._jobs.keys.find(fingerprint(job.queue, job.idempotency_key))
        ]

    def _store(self, jobs: list[JobRequest], now: int, wall: int) -> list[EnqueuedJob]:
        topic = self._topic(now)
        outcomes: list[EnqueuedJob] = []
        fresh: dict[tuple[str, str], tuple[JobRequest, EnqueuedJob]] = {}
        terms: list[JobTerms] = []
        entries: list[bytes] = []
        size = 0
        for job in jobs:
            known = self._known(job, fresh, now=now, wall=wall)
            if known is not None:
                outcomes.append(known)
                continue
            offset = topic.next_offset + len(entries)
            run_at = job.run_at if job.run_at is not None and job.run_at > wall else None
            outcome = EnqueuedJob(job_id(offset), "ready" if run_at is None else "scheduled")
            if job.idempotency_key:
                fresh[job.queue, job.idempotency_key] = (job, outcome)
            print_ = fingerprint(job.queue, job.idempotency_key) if job.idempotency_key else 0
            terms.append(
                JobTerms(
                    offset,
                    job.queue,
                    job.priority,
                    now if run_at is None else run_at,
                    job.max_retries,
                    job.timeout_ms,
                    print_,
                    run_at is not None,
                )
            )
            entries.append(encode_job(job, now))
            size += len(entries[-1])
            outcomes.append(outcome)
            if size > _TOGETHER_BYTES:
                self._flush(topic, terms, entries, now)
                terms, entries, size = [], [], 0
        self._flush(topic, terms, entries, now)
        return outcomes

    def _flush(self, topic: Topic, terms: list[JobTerms], entries: list[bytes], now: int) -> None:
        if terms:
            self._journal.add_texts(topic, entries, also=JobsEnqueued(at=now, jobs=terms), now=now)
            self._counters.jobs_enqueued += len(terms)

    def _known(
        self,
        job: JobRequest,
        fresh: dict[tuple[str, str], tuple[JobRequest, EnqueuedJob]],
        *,
        now: int,
        wall: int,
    ) -> EnqueuedJob | None:
        """The earlier job with the same key, if there is one."""
        if not job.idempotency_key:
            return None
        here = fresh.get((job.queue, job.idempotency_key))
        if here is not None:
            other, outcome = here
            return msgspec.structs.replace(outcome, duplicate=True, payload_mismatch=not is_same(other, job))
        for claim in self._holders(job):
            stored = self._entries.read(claim)
            if stored.queue == job.queue and stored.idempotency_key == job.idempotency_key:
                return EnqueuedJob(
                    job_id(claim.offset),
                    self._jobs.state_name(claim.offset, now=now, wall=wall) or "",
                    duplicate=True,
                    payload_mismatch=not is_same(stored, job),
                )
        return None

    def _topic(self, now: int) -> Topic:
        state = self._journal.state
        if JOBS_TOPIC not in state.topics:
            self._journal.add(TopicCreated(now, state.next_topic, JOBS_TOPIC, 1, TopicOptions()))
        return state.topics[JOBS_TOPIC]
