"""Workers with jobs, effects and fragile messages: the judges observe all requests and answers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from driftq.core.commands import Ack, Nack
from driftq.core.effects import Identity
from driftq.core.jobs.table import job_offset
from driftq.core.jobs.transitions import Settlement
from driftq.core.records import CRASH_UNDECLARED, EffectBegun, EffectTerms
from driftq.errors import DriftQError
from driftq.model import DeliveryLine, Envelope, Message, RetryPolicy, TopicOptions
from driftq.model.job import JobRequest, RetryTiming
from driftq.model.time import rfc3339
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.server.effects.requests import BeginRequest, CommitRequest, FailRequest, ResolveRequest
from driftq.server.jobs.requests import (
    ClaimRequest,
    EnqueueRequest,
    JobsGranted,
    SettleRequest,
    cancel,
    heartbeat,
)
from driftq.server.produce.prepare import prepare
from driftq.server.requests import (
    AckRequest,
    JoinRequest,
    LeaveRequest,
    NackRequest,
    ProduceRequest,
    TopicRequest,
)
from driftq.testing.check_dead_letters import MAX_BACKOFF_MS, DeadLetterChecker, Fragile
from driftq.testing.check_delivered import Listener
from driftq.testing.check_effects import EffectChecker
from driftq.testing.check_instants import InstantChecker
from driftq.testing.check_jobs import JobChecker
from driftq.testing.check_silence import SilenceChecker
from driftq.testing.consumer import SimConsumer, SimWorker
from driftq.testing.dead_letter_life import DeadLetterLife
from driftq.testing.job_life import JobLife
from driftq.testing.machine import MachineOptions
from driftq.testing.work_life import WorkLife

TOPIC = "fragile"
GROUPS = ("billing", "search")
SLACK_MS = 300
LEASE_MS = 900


class WorkWorld(WorkLife):
    """The actions of workers, and what they hold."""

    def __init__(self, random: Random, options: MachineOptions, *, say: Callable[[str], None]) -> None:
        super().__init__(random, options, say=say)
        self.jobs = JobChecker()
        self.effects = EffectChecker()
        self.dead_letters = DeadLetterChecker(GROUPS)
        self.instants = InstantChecker(self.wall)
        self.held_jobs: list[tuple[int, int]] = []
        self.held_effects: list[tuple[Identity, int, str]] = []
        self._claiming: set[object] = set()
        """Claims that this life of the server has not answered."""
        self.hands: list[tuple[str, DeliveryLine]] = []
        self.read_dead_letters: set[int] = set()
        self.dead_letter_life = DeadLetterLife(self)
        self.job_life = JobLife(self)
        self.silence = SilenceChecker(lease_ms=LEASE_MS, slack_ms=SLACK_MS)
        self._streams: dict[str, SimConsumer] = {}
        self._stopped_until: dict[str, int] = {}
        self._failures = 0

    # Jobs

    def enqueue(
        self,
        key: str,
        *,
        priority: int,
        max_retries: int,
        run_at: int | None,
        retry: RetryTiming | None = None,
    ) -> None:
        job = JobRequest(
            queue="mail",
            task="send",
            payload=msgspec.Raw(msgspec.json.encode(key)),
            priority=priority,
            run_at=run_at,
            idempotency_key=key,
            max_retries=max_retries,
            retry=retry,
        )
        asked_at = self.now

        def take(answer: Any) -> None:
            if isinstance(answer, list):
                offset = job_offset(answer[0].job_id)
                assert offset is not None
                self.jobs.enqueued(key, offset, max_retries=max_retries, retry=retry)
                if run_at is not None and not answer[0].duplicate:
                    self.instants.enqueued(
                        answer[0], run_at, life=self._life, asked_at=asked_at, now=self.now
                    )

        self.machine.engine.submit(EnqueueRequest([job], self.heard(f"enqueue {key}", take)))

    def claim(self, *, limit: int, lease_ms: int, wait_ms: int) -> None:
        asked_at, waiting, me = self.now, self.instants.waiting(self._life), object()
        self._claiming.add(me)

        def take(answer: Any) -> None:
            self._claiming.remove(me)
            if (
                answer is None and not self._claiming
            ):  # Else another may have got them, and not heard of it yet.
                self.instants.none_was_ready(waiting, asked_at=asked_at, now=self.now)
            if isinstance(answer, JobsGranted):
                self.jobs.granted(answer)
                self.instants.granted(answer)
                first = answer.record.first_token
                self.held_jobs += [(offset, first + n) for n, offset in enumerate(answer.record.offsets)]

        reply = self.heard("claim", take)
        self.machine.engine.submit(ClaimRequest(["mail"], "w", lease_ms, limit, self.now + wait_ms, reply))

    def complete(self, offset: int, token: int) -> None:
        asked_at = self.now
        self.jobs.completing(offset, token)

        def take(answer: Any) -> None:
            outcome = answer if isinstance(answer, DriftQError) else answer[0]
            self.jobs.completed(offset, token, outcome, asked_at=asked_at, now=self.now)
            if outcome is None:
                self.job_life.checker.ended(offset, now=self.now)

        reply = self.heard(f"complete {offset} {token}", take)
        self.machine.engine.submit(SettleRequest([Settlement(offset, token)], reply))

    def fail(self, offset: int, token: int, *, retryable: bool) -> None:
        self.jobs.loosened(offset, for_good=not retryable)
        settlement = Settlement(offset, token, error="boom", retryable=retryable)
        asked_at = self.now

        def take(answer: Any) -> None:
            if isinstance(answer, list) and answer[0] is None:
                self.jobs.failed(offset, token, asked_at=asked_at)

        reply = self.heard(f"fail {offset} {token}", take)
        self.machine.engine.submit(SettleRequest([settlement], reply))

    def cancel(self, offset: int) -> None:
        self.jobs.loosened(offset, for_good=True)
        self.instants.cancelling(offset)
        self.machine.engine.submit(cancel(offset, self.heard(f"cancel {offset}", lambda _: None)))

    def heartbeat(self, offset: int, token: int, lease_ms: int) -> None:
        until = self.now + lease_ms
        beat = self.jobs.beating(offset, until=until)

        def take(answer: Any) -> None:
            if answer is None:
                self.jobs.extended(offset, token, beat, until=until)

        reply = self.heard(f"heartbeat {offset} {token}", take)
        self.machine.engine.submit(heartbeat(offset, token=token, lease_ms=lease_ms, reply=reply))

    # Effects

    def begin(self, identity: Identity, owner: str, lease_ms: int, *, crash: int = CRASH_UNDECLARED) -> None:
        self.effects.asked_to_begin(identity, crash=crash)

        def take(answer: Any) -> None:
            if not isinstance(answer, DriftQError):
                self.effects.begun(identity, answer)
                if isinstance(answer, EffectBegun):
                    self.held_effects.append((identity, answer.token, owner))

        reply = self.heard(f"begin {identity[3]} by {owner}", take)
        terms = EffectTerms(crash)
        self.machine.engine.submit(BeginRequest(identity, owner, lease_ms, reply, terms=terms))

    def resolve(self, identity: Identity) -> None:
        """A person says that it did not happen."""
        self.effects.resolving(identity)
        reply = self.heard(f"resolve {identity[3]}", lambda _: None)
        self.machine.engine.submit(ResolveRequest(identity, False, None, reply))

    def commit(self, identity: Identity, token: int, owner: str) -> None:
        result = f'"by {token}"'
        self.effects.committing(identity, token, result)

        def take(answer: Any) -> None:
            self.effects.committed(identity, token, answer, now=self.now)

        reply = self.heard(f"commit {identity[3]} {token}", take)
        self.machine.engine.submit(CommitRequest(identity, owner, token, result.encode(), reply))

    def fail_effect(self, identity: Identity, token: int, owner: str) -> None:
        self.effects.loosened(identity)
        reply = self.heard(f"fail {identity[3]} {token}", lambda _: None)
        self.machine.engine.submit(FailRequest(identity, owner, token, "boom", reply))

    # Fragile messages

    def begin_topic(self) -> None:
        reply = self.heard("topic", lambda _: None)
        self.machine.engine.submit(TopicRequest(TOPIC, 2, TopicOptions(), reply))
        self.run_for(100)
        self.open_streams()

    def open_streams(self) -> None:
        """One stream for each group, which may release its deliveries when it closes.

        The life with dead letters opens its own.
        """
        self._claiming.clear()
        for group in GROUPS:
            self._open_stream(group)
        self.dead_letter_life.restarted()
        self.job_life.restarted()

    def _open_stream(self, group: str) -> None:
        self.silence.heard(group, self.now)
        release = self.random.random() < 0.5
        self._streams[group] = self._join(
            TOPIC, group, self._received, lease_ms=LEASE_MS, release_on_close=release
        )

    def reopen_stream(self, group: str) -> None:
        """Replace the worker of a group by another one."""
        stream, now = self._streams[group], self.now
        self.say(f"{group} closes its stream, release_on_close is {stream.release_on_close}")
        self.machine.engine.submit(LeaveRequest(stream))
        if stream.release_on_close:
            self.dead_letters.stream_released(stream)
            for held_by, delivery in self.hands:
                course = self.dead_letters.course(delivery.offset, held_by)
                sure = now + 2 * SLACK_MS < course.received_at + LEASE_MS and course.stream is stream
                if held_by == group and sure:
                    self.dead_letters.released(group, delivery, now=now)
        self._open_stream(group)

    def stop_worker(self, group: str, *, ms: int) -> None:
        """The worker of a group is stopped: its stream accepts deliveries, and no request follows."""
        self.say(f"the worker of {group} is stopped for {ms} ms")
        self._stopped_until[group] = self.now + ms

    def is_stopped(self, group: str) -> bool:
        return self.now < self._stopped_until.get(group, 0)

    def read_graves(self) -> None:
        self._join(DEAD_LETTER_PREFIX + TOPIC, "audit", self._buried, lease_ms=60_000)

    def _join(
        self,
        topic: str,
        group: str,
        take: Callable[..., None],
        *,
        lease_ms: int,
        release_on_close: bool = False,
    ) -> SimConsumer:
        listener = Listener(
            topic=topic, group=group, owner="w", lease_ms=lease_ms, release_on_close=release_on_close
        )
        life = self._life

        def receive(consumer: SimConsumer, delivery: DeliveryLine) -> None:
            if life == self._life:
                take(consumer, delivery)

        consumer = SimConsumer(listener, SimWorker("w"), on_delivery=receive)
        self.machine.engine.submit(JoinRequest(consumer, self.heard(f"join {topic} {group}", lambda _: None)))
        return consumer

    def _received(self, consumer: SimConsumer, delivery: DeliveryLine) -> None:
        self.say(f"  {consumer.group} gets {delivery.offset} attempt {delivery.attempts}")
        wall = self.wall.lowest(self.now - SLACK_MS, self.now)
        self.dead_letters.delivered(consumer.group, delivery, stream=consumer, now=self.now, wall=wall)
        self._judge_silence(consumer)
        self.hands.append((consumer.group, delivery))

    def _judge_silence(self, consumer: SimConsumer) -> None:
        """After a failed commit the server no longer knows which stream holds what."""
        failures = self.machine.engine.counters.commit_failures
        if failures != self._failures:
            self._failures = failures
            self.silence.shaken(self.now)
        if consumer is self._streams[consumer.group]:
            self.silence.delivered(consumer.group, self.now)

    def _buried(self, consumer: SimConsumer, delivery: DeliveryLine) -> None:
        ack = Ack("w", delivery.partition, delivery.offset, delivery.attempts)
        reply = self.heard(f"ack letter {delivery.offset}", lambda _: None)
        self.machine.engine.submit(AckRequest(consumer.topic, consumer.group, [ack], reply))
        if delivery.offset not in self.read_dead_letters:
            self.read_dead_letters.add(delivery.offset)
            assert delivery.envelope is not None
            assert delivery.envelope.dlq is not None
            self.dead_letters.read(delivery.value, delivery.envelope.dlq)
            self.instants.dead_lettered(self.dead_letters.deadline_of(delivery.value), delivery.envelope.dlq)

    def produce(self, fragile: Fragile) -> None:
        self.dead_letters.meant(fragile)
        envelope = Envelope(
            deadline=rfc3339(fragile.deadline) if fragile.deadline is not None else None,
            retry_policy=RetryPolicy(fragile.max_attempts, fragile.backoff_ms, MAX_BACKOFF_MS),
        )
        message = Message(topic=TOPIC, value=fragile.value, key=fragile.value, envelope=envelope)
        asked_at = self.now

        def take(answer: Any) -> None:
            if fragile.deadline is not None and isinstance(answer, list):
                self.instants.produced(fragile.deadline, answer[0], asked_at=asked_at, now=self.now)

        reply = self.heard(f"produce {fragile}", take)
        self.machine.engine.submit(ProduceRequest([prepare(message, at=self.now)], reply))

    def ack(self, group: str, delivery: DeliveryLine) -> None:
        course = self.dead_letters.course(delivery.offset, group)

        def take(answer: Any) -> None:
            """An ack is also fine when the message was given up before; in time it surely was not."""
            if isinstance(answer, list) and answer[0] is None:
                in_time = self.now < course.received_at + LEASE_MS - SLACK_MS
                # An ack of what was given up is fine.
                course.acked |= in_time and not course.hopeless and not course.loose

        course.perhaps_acked = True
        self.silence.heard(group, self.now)
        ack = Ack("w", delivery.partition, delivery.offset, delivery.attempts)
        self.machine.engine.submit(
            AckRequest(TOPIC, group, [ack], self.heard(f"ack {delivery.offset}", take))
        )

    def nack(self, group: str, delivery: DeliveryLine, *, retryable: bool) -> None:
        course = self.dead_letters.course(delivery.offset, group)
        course.loose = True
        course.hopeless |= not retryable
        self.silence.heard(group, self.now)
        nack = Nack("w", delivery.partition, delivery.offset, "boom", delivery.attempts, retryable)
        reply = self.heard(f"nack {delivery.offset} {retryable}", lambda _: None)
        self.machine.engine.submit(NackRequest(TOPIC, group, nack, reply))

    def give_back(self, group: str, delivery: DeliveryLine) -> None:
        """No handler began it."""
        course = self.dead_letters.course(delivery.offset, group)
        course.loose = True
        course.unstarted_asked += 1

        def take(answer: Any) -> None:
            course.unstarted += answer is None

        self.silence.heard(group, self.now)
        nack = Nack("w", delivery.partition, delivery.offset, attempt=delivery.attempts, started=False)
        reply = self.heard(f"give back {delivery.offset}", take)
        self.machine.engine.submit(NackRequest(TOPIC, group, nack, reply))
