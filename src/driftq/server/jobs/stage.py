"""Jobs in the engine's turn: requests about them are decided together, and claims may wait for work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from driftq.core.index import PartitionIndex
from driftq.core.jobs.records import JobsClaimed, JobsEnqueued, JobTerms
from driftq.core.jobs.table import JOBS_TOPIC, job_id
from driftq.core.jobs.transitions import decide_claim, decide_job_expiries, decide_settlements
from driftq.core.jobs.unblocking import check_parents, decide_unblocked
from driftq.core.keys import MessageRef, fingerprint
from driftq.core.records import TopicCreated
from driftq.core.state import State, Topic
from driftq.errors import DriftQError, JobNotFound, LogCorrupt
from driftq.model import TopicOptions
from driftq.model.job import JobRequest, StoredJob
from driftq.model.wire.jobs import EnqueuedJob
from driftq.server.jobs.ends import EndRequest, EndWaiters
from driftq.server.jobs.measures import measure
from driftq.server.jobs.requests import (
    ClaimRequest,
    EnqueueRequest,
    JobAction,
    JobsGranted,
    JobsRequest,
    SettleRequest,
)
from driftq.server.requests import Reply
from driftq.server.turn import Turn
from driftq.storage.entry import decode_job, encode_job, is_same
from driftq.storage.journal import Journal
from driftq.storage.payloads import EntriesGone, Payloads

_TOGETHER_BYTES = 4 << 20


@dataclass(slots=True)
class _Requests:
    enqueues: list[EnqueueRequest] = field(default_factory=list)
    claims: list[ClaimRequest] = field(default_factory=list)
    settles: list[SettleRequest] = field(default_factory=list)
    actions: list[JobAction] = field(default_factory=list)


class JobsStage:
    """Decides the requests of a turn kind by kind: settlements and new jobs come before claims."""

    handles: ClassVar = (EnqueueRequest, ClaimRequest, SettleRequest, JobAction, EndRequest)

    def __init__(self, journal: Journal, payloads: Payloads, *, jitter: Callable[[], float]) -> None:
        self._journal = journal
        self._payloads = payloads
        self._jitter = jitter
        self._requests = _Requests()
        self._waiting: list[ClaimRequest] = []
        self.ends = EndWaiters()
        self._stopping = False
        self._lead_ms = 0
        """How far engine time was ahead of the wall clock in the latest turn."""

    @property
    def pending(self) -> bool:
        requests = self._requests
        return self.ends.pending or bool(
            requests.enqueues or requests.claims or requests.settles or requests.actions
        )

    @property
    def next_at(self) -> int | None:
        """When a lease expires, a waiting claim has work or times out, or a wait for an end is over.

        A `run_at` is converted to engine time here. If the wall clock moves before then, the next turn
        computes another time, and a turn runs at least once a tick.
        """
        jobs = self._journal.state.jobs
        if not self._waiting:
            end, wait_end = jobs.next_end() if jobs.ends else None, self.ends.next_at
            return end if wait_end is None or (end is not None and end < wait_end) else wait_end
        times = [jobs.next_end(), self.ends.next_at, min(request.until for request in self._waiting)]
        queues = {queue for request in self._waiting for queue in request.queues}
        times += [jobs.next_due(queue, lead_ms=self._lead_ms) for queue in queues]
        return min(at for at in times if at is not None)

    def submit(self, request: JobsRequest | EndRequest) -> None:
        match request:
            case EndRequest():
                self.ends.submit(request)
            case EnqueueRequest():
                self._requests.enqueues.append(request)
            case ClaimRequest():
                self._requests.claims.append(request)
            case SettleRequest():
                self._requests.settles.append(request)
            case JobAction():
                self._requests.actions.append(request)

    def reject(self, error: DriftQError) -> None:
        self.ends.reject(error)
        requests, self._requests = self._requests, _Requests()
        waiting, self._waiting = self._waiting, []
        rejected: list[JobsRequest] = [
            *requests.enqueues,
            *requests.claims,
            *requests.settles,
            *requests.actions,
            *waiting,
        ]
        for request in rejected:
            request.reply(error)

    def stop_waiting(self) -> None:
        """The server stops: claims that wait get no work, and no claim waits from now on."""
        self._stopping = True
        self.ends.stop()
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            request.reply(None)

    def withdraw(self, reply: Reply) -> None:
        """The client of this claim has disconnected."""
        self._waiting = [request for request in self._waiting if request.reply is not reply]
        self._requests.claims = [request for request in self._requests.claims if request.reply is not reply]

    def decide(self, turn: Turn) -> None:
        self._lead_ms = turn.now - turn.wall
        jobs = turn.state.jobs
        requests = self._requests
        self.ends.begin(jobs)
        jobs.expire(turn.now)
        if requests.enqueues or requests.settles or requests.claims or requests.actions:
            self._requests = _Requests()
        if requests.settles:
            self._settle(turn, requests.settles)
        for action in requests.actions:
            self._act(turn, action)
        if jobs.ends and not turn.quiet:
            for record in decide_job_expiries(jobs, now=turn.now, jitter=self._jitter):
                measure(turn, record)
                turn.journal.add(record)
        if requests.enqueues:
            _enqueue(turn, requests.enqueues)
        while jobs.dependencies.outcomes and (unblocked := decide_unblocked(jobs, now=turn.now)) is not None:
            turn.journal.add(unblocked)  # A dead job may have children of its own.
        if self._waiting:
            self._serve_waiting(turn)
        for claim in requests.claims:
            self._claim(turn, claim)
        self.ends.decide(turn)

    def _serve_waiting(self, turn: Turn) -> None:
        """Claims whose queues have work, first come first served, and those that waited long enough."""
        jobs, now = turn.state.jobs, turn.now
        queues = {queue for request in self._waiting for queue in request.queues}
        due = ((queue, jobs.next_due(queue, lead_ms=now - turn.wall)) for queue in queues)
        ready = {queue for queue, at in due if at is not None and at <= now}
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            if request.until <= now or not ready.isdisjoint(request.queues):
                self._claim(turn, request)
            else:
                self._waiting.append(request)

    def _settle(self, turn: Turn, requests: list[SettleRequest]) -> None:
        settlements = [settlement for request in requests for settlement in request.settlements]
        completed, failed, outcomes = decide_settlements(
            turn.state.jobs, settlements, now=turn.now, jitter=self._jitter
        )
        for record in (completed, failed):
            if record is not None:
                measure(turn, record)
                turn.journal.add(record)
        start = 0
        for request in requests:
            stop = start + len(request.settlements)
            turn.reply(request, outcomes[start:stop])
            start = stop

    def _act(self, turn: Turn, action: JobAction) -> None:
        answer: DriftQError | None = None
        try:
            record = action.decide(turn.state.jobs, turn.now, turn.wall)
            measure(turn, record)
            turn.journal.add(record)
        except DriftQError as refused:
            answer = refused
        turn.reply(action, answer)

    def _claim(self, turn: Turn, request: ClaimRequest) -> None:
        answer: JobsGranted | DriftQError | None = None
        try:
            record = decide_claim(
                turn.state.jobs,
                request.queues,
                owner=request.owner,
                lease_ms=request.lease_ms,
                limit=request.limit,
                now=turn.now,
                wall=turn.wall,
            )
            if record is not None:
                answer = self._grant(turn, record)
            elif turn.now < request.until and not self._stopping:
                self._waiting.append(request)
                return
        except DriftQError as refused:
            answer = refused
        turn.reply(request, answer)

    def _grant(self, turn: Turn, record: JobsClaimed) -> JobsGranted:
        """As many of these as fit into a reply of bounded size."""
        index = turn.state.topics[JOBS_TOPIC].partitions[0].index
        ordinals: list[int] = []
        size = 0
        for count, offset in enumerate(record.offsets):
            ordinal = index.find(offset)
            if ordinal is None:
                continue
            size += index.place_at(ordinal).length
            if size > _TOGETHER_BYTES and count:
                turn.state.jobs.flow.give_back(turn.state.jobs, record.offsets[count:])
                del record.offsets[count:]
                break
            ordinals.append(ordinal)
        measure(turn, record)
        turn.journal.add(record)
        jobs = turn.state.jobs
        attempts = [jobs.attempts[offset - jobs.base] for offset in record.offsets]
        found = self._in_memory(index, ordinals) if len(ordinals) == len(attempts) else None
        return JobsGranted(record, attempts, found)

    def _in_memory(self, index: PartitionIndex, ordinals: list[int]) -> list[bytes] | None:
        try:
            return self._payloads.fetch(index, ordinals)
        except (EntriesGone, LogCorrupt):
            return None  # The read that follows the commit reports it.


# Enqueueing


def _enqueue(turn: Turn, requests: list[EnqueueRequest]) -> None:
    ready: list[EnqueueRequest] = []
    for request in requests:
        same = [ref for job in request.jobs if job.idempotency_key for ref in _same_key(turn.state, job)]
        cold = turn.lookup.cold(same) if same else []
        if cold:
            turn.requeue_when_read(cold, request)
        else:
            ready.append(request)
    jobs = [job for request in ready for job in request.jobs]
    outcomes = _store(turn, jobs) if jobs else []
    start = 0
    for request in ready:
        stop = start + len(request.jobs)
        turn.reply(request, outcomes[start:stop])
        start = stop


def _store(turn: Turn, jobs: list[JobRequest]) -> list[EnqueuedJob | DriftQError]:
    topic = _jobs_topic(turn)
    now, wall = turn.now, turn.wall
    outcomes: list[EnqueuedJob | DriftQError] = []
    fresh: dict[tuple[str, str], tuple[JobRequest, EnqueuedJob]] = {}
    terms: list[JobTerms] = []
    entries: list[bytes] = []
    size = 0
    for job in jobs:
        duplicate = _find_duplicate(turn, job, fresh)
        if duplicate is not None:
            turn.counters.job_duplicates += 1
            outcomes.append(duplicate)
            continue
        offset = topic.next_offset + len(entries)
        run_at = job.run_at if job.run_at is not None and job.run_at > wall else None
        try:
            blocked = check_parents(turn.state.jobs, job.after) if job.after else ""
        except DriftQError as refused:
            outcomes.append(refused)
            continue
        outcome = EnqueuedJob(job_id(offset), blocked or ("ready" if run_at is None else "scheduled"))
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
                job.retry,
                limit_key=job.limit_key,
                after=job.after,
            )
        )
        entries.append(encode_job(job, now))
        size += len(entries[-1])
        outcomes.append(outcome)
        if size > _TOGETHER_BYTES:
            _flush(turn, topic, terms, entries)
            terms, entries, size = [], [], 0
    _flush(turn, topic, terms, entries)
    return outcomes


def _flush(turn: Turn, topic: Topic, terms: list[JobTerms], entries: list[bytes]) -> None:
    if terms:
        turn.journal.add_texts(topic, entries, also=JobsEnqueued(at=turn.now, jobs=terms), now=turn.now)
        turn.counters.jobs_enqueued += len(terms)


def _find_duplicate(
    turn: Turn, job: JobRequest, fresh: dict[tuple[str, str], tuple[JobRequest, EnqueuedJob]]
) -> EnqueuedJob | None:
    """The earlier job with the same key, if there is one."""
    if not job.idempotency_key:
        return None
    earlier = fresh.get((job.queue, job.idempotency_key))
    if earlier is not None:
        other, outcome = earlier
        return msgspec.structs.replace(outcome, duplicate=True, payload_mismatch=not is_same(other, job))
    for ref in _same_key(turn.state, job):
        stored = _stored_job(turn, ref)
        if stored.queue == job.queue and stored.idempotency_key == job.idempotency_key:
            return EnqueuedJob(
                job_id(ref.offset),
                turn.state.jobs.state_name(ref.offset, now=turn.now, wall=turn.wall) or "",
                duplicate=True,
                payload_mismatch=not is_same(stored, job),
            )
    return None


def _same_key(state: State, job: JobRequest) -> list[MessageRef]:
    """The jobs that may have the same key: their fingerprints are equal."""
    topic = state.topics.get(JOBS_TOPIC)
    if topic is None:
        return []
    offsets = state.jobs.keys.find(fingerprint(job.queue, job.idempotency_key))
    return [MessageRef(topic.id, offset) for offset in offsets]


def _stored_job(turn: Turn, ref: MessageRef) -> StoredJob:
    entry = turn.lookup.entry(ref)
    if entry is None:
        raise JobNotFound(job_id(ref.offset))
    return decode_job(entry)


def _jobs_topic(turn: Turn) -> Topic:
    state = turn.state
    if JOBS_TOPIC not in state.topics:
        turn.journal.add(TopicCreated(turn.now, state.next_topic, JOBS_TOPIC, 1, TopicOptions()))
    return state.topics[JOBS_TOPIC]
