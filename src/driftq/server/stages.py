"""The stages of a turn, in their order, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeGuard

from driftq.core.keys import MessageRef
from driftq.core.state import State
from driftq.errors import DriftQError, LogCorrupt, NotConfirmed, Unavailable
from driftq.housekeeping.process import Housekeeper
from driftq.log.log import Log
from driftq.server.counters import Counters
from driftq.server.deliver.consumers import Consumers
from driftq.server.deliver.outbox import Outbox
from driftq.server.deliver.stage import DeliverStage, Timers
from driftq.server.dlq.stage import DlqStage
from driftq.server.effects.stage import EffectsStage
from driftq.server.jobs.stage import JobsStage
from driftq.server.jobs.views import JobReader
from driftq.server.lookup import MessageLookup
from driftq.server.maintenance.stage import MaintenanceOptions, MaintenanceStage
from driftq.server.ports import Background, Loop
from driftq.server.produce.stage import ProduceStage
from driftq.server.requests import EngineRequest
from driftq.server.schedules.stage import SchedulesStage
from driftq.server.settle.dead_letters import DeadLetterWriter
from driftq.server.settle.stage import SettleStage
from driftq.server.topics.stage import TopicsStage
from driftq.server.topics.waiting import TopicWaits
from driftq.server.turn import RequestQueue, Stage, Turn
from driftq.storage.journal import Journal
from driftq.storage.payloads import Payloads


class Stages:
    """All stages; together they form one."""

    def __init__(
        self,
        log: Log,
        journal: Journal,
        payloads: Payloads,
        *,
        loop: Loop,
        background: Background,
        counters: Counters,
        jitter: Callable[[], float],
        maintenance: MaintenanceOptions,
        housekeeper: Housekeeper | None,
        want_turn: Callable[[], None],
        on_damage: Callable[[LogCorrupt], None],
    ) -> None:
        self.consumers = consumers = Consumers()
        self._timers = timers = Timers()
        self.lookup = MessageLookup(journal, payloads, background, on_damage=on_damage, want_turn=want_turn)
        dead_letters = DeadLetterWriter(consumers, timers)
        new_outbox = partial(Outbox, payloads=payloads, background=background, on_damage=on_damage)
        self.topic_waits = TopicWaits()
        self.jobs = JobsStage(journal, payloads, jitter=jitter)
        self.job_reader = JobReader(self.lookup, journal)
        self.maintenance = MaintenanceStage(
            log,
            journal,
            loop=loop,
            background=background,
            counters=counters,
            options=maintenance,
            housekeeper=housekeeper,
            want_turn=want_turn,
        )
        # Topics come first, so that all later stages see the current topics and consumers. Stages that end
        # deliveries come before those that store messages, because they free capacity. Deliveries come after
        # both: a message can leave in the very commit that stores it. Maintenance trims what the turn leaves.
        # Waits come last: they look whether any of the others has stored something.
        self._stages: tuple[Stage, ...] = (
            TopicsStage(consumers, new_outbox=new_outbox),
            SettleStage(consumers, timers, dead_letters, jitter=jitter),
            EffectsStage(),
            DlqStage(consumers, self.maintenance),
            SchedulesStage(lambda: journal.state.schedules),
            self.jobs,
            ProduceStage(consumers, self.maintenance),
            DeliverStage(consumers, timers, dead_letters),
            self.maintenance,
            self.topic_waits,
        )
        self.by_request: dict[type[EngineRequest], Stage] = {
            kind: stage for stage in self._stages for kind in stage.handles
        }
        # Every turn asks them, so a stage whose class knows the answer is not asked.
        self._queues = [one for one in self._stages if _is_queue(one)]
        self._other_than_queues = [one for one in self._stages if not _is_queue(one)]
        self._with_times = [
            one for one in self._stages if type(one).next_at not in (None, RequestQueue.next_at)
        ]
        self._rejection: DriftQError | None = None

    @property
    def pending(self) -> bool:
        for queue in self._queues:
            if queue.requests:
                return True
        for stage in self._other_than_queues:  # noqa: SIM110 - half the cost of any() with a generator.
            if stage.pending:
                return True
        return False

    @property
    def next_at(self) -> int | None:
        earliest = None
        for stage in self._with_times:
            at = stage.next_at
            if at is not None and (earliest is None or at < earliest):
                earliest = at
        return earliest

    def submit(self, request: EngineRequest) -> None:
        self.by_request[type(request)].submit(request)

    def requeue_when_read(self, refs: list[MessageRef], request: EngineRequest) -> None:
        """Fetch these messages, then submit the request to its stage, or answer it with an error."""
        self.lookup.fetch(refs, partial(self._requeue, request))

    def _requeue(self, request: EngineRequest, error: NotConfirmed | None) -> None:
        if error is None and self._rejection is not None:
            error = NotConfirmed(str(self._rejection))
        if error is None:
            self.submit(request)
        else:
            request.reply(error)

    def decide(self, turn: Turn) -> None:
        for stage in self._stages:
            stage.decide(turn)

    def reject(self, error: DriftQError) -> None:
        """Permanently: a request that still waits for a read is not decided any more either."""
        self._rejection = error
        for stage in self._stages:
            stage.reject(error)

    def stop(self, refusal: Unavailable) -> None:
        """Start nothing new: answer claims that wait for work and seals that wait for a round."""
        self.jobs.stop_waiting()
        self.topic_waits.stop()
        self.maintenance.reject(refusal)
        self.maintenance.stop()

    def state_was_folded(self, state: State) -> None:
        """The state was replaced: rebuild timers and consumers from it."""
        self._timers.clear()
        for group in state.groups_by_id.values():
            for partition in range(len(group.partitions)):
                self._timers.note(group, partition)
        self.consumers.state_was_folded(state)


def _is_queue(stage: Stage) -> TypeGuard[RequestQueue[Any]]:
    """Whether its requests are all that can be pending."""
    return isinstance(stage, RequestQueue) and vars(type(stage)).get("pending") is None
