"""One worker with everything around it, and what a story wants to see of it."""

import datetime as dt
from collections.abc import Callable, Sequence

import msgspec

from driftq.effects import HandlerSinks
from driftq.eventstore.published import PublishedEvent
from driftq.model import Event, Operation
from driftq.pipeline.worker.heartbeats import ClaimHeartbeats
from driftq.pipeline.worker.queues import TopicEvent
from driftq.pipeline.worker.runtime import make_run
from driftq.pipeline.worker.spec import HandlerCall
from driftq.pipeline.worker.store import WorkerStore
from driftq.pipeline.worker.task_run import TaskRun
from driftq.pipeline.worker.timing import RunStopped
from driftq.registry import Effect, GapPolicy, Handler
from driftq.registry.parking import ParkedEvent
from driftq.registry.sql_registry import SqlRegistry
from driftq.testing.clock import VirtualClock

LEASE_MS = 30_000
TOPIC = "events.order"


def published(aggregate: str, sequence: int) -> PublishedEvent:
    return PublishedEvent(
        event_id=f"{aggregate}-{sequence}",
        aggregate_type="order",
        aggregate_id=aggregate,
        sequence_number=sequence,
        event_type="changed",
        kind="fact",
        operation=Operation.APPEND,
        occurred_at=dt.datetime(2026, 1, 8, tzinfo=dt.UTC),
        payload={"n": sequence},
        metadata={},
        schema_version=1,
        position=sequence,
    )


def on_topic(*names: str, start: int = 0) -> list[ParkedEvent]:
    """Messages `a1 b1 a2`: aggregate and sequence of each, in this order; `?` is no event."""
    values = [
        "this is no event" if name == "?" else msgspec.json.encode(published(name[0], int(name[1:]))).decode()
        for name in names
    ]
    return [
        ParkedEvent(topic=TOPIC, partition=0, offset=start + nth, value=value)
        for nth, value in enumerate(values)
    ]


class Store:
    """An event store that takes each id once, and may be away."""

    def __init__(self) -> None:
        self.events: dict[str, Event] = {}
        self.before: Callable[[], None] = lambda: None

    def append_all(self, events: Sequence[tuple[Event, int | None]]) -> None:
        self.before()
        for event, _ in events:
            self.events.setdefault(event.event_id, event)


class StoryTiming:
    """Waiting moves the clock; `before_wait` is what happens in the world meanwhile."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.waits: list[int] = []
        self.before_wait: Callable[[], None] = lambda: None
        self.stopped = False

    def now(self) -> int:
        return self._clock.now()

    def wait(self, ms: int) -> None:
        self.waits.append(ms)
        self.before_wait()
        self._clock.advance(ms=ms)

    def raise_if_stopped(self) -> None:
        if self.stopped:
            raise RunStopped


class Stage:
    """`handle` is asked for each event; what it did is in `seen`, in order."""

    def __init__(self, registry: SqlRegistry, clock: VirtualClock) -> None:
        self.registry = registry
        self.timing = StoryTiming(clock)
        self.store = Store()
        self.seen: list[str] = []
        self.ledger = WorkerStore.on(registry)

    def worker(
        self,
        call: HandlerCall,
        *,
        effect: Effect = Effect.IDEMPOTENT,
        gap_policy: GapPolicy = GapPolicy.ORDERED,
        retries: int = 2,
        gathers: bool = True,
        sinks: HandlerSinks | None = None,
    ) -> TaskRun:
        """A worker called `billing`."""
        handler = Handler("billing", effect, gap_policy, max_retries=retries, lease_ms=LEASE_MS)
        self.heartbeats = ClaimHeartbeats(lambda: self.ledger.claims, every_ms=1000, timing=self.timing)
        return make_run(
            handler,
            call,
            self.ledger,
            event_store=self.store,
            heartbeats=self.heartbeats,
            timing=self.timing,
            gathers=gathers,
            sinks=sinks,
        )

    def note(self, event: PublishedEvent, _: object) -> None:
        """A handler that writes down what it was given."""
        self.seen.append(f"{event.aggregate_id}{event.sequence_number}")

    def run(self, worker: TaskRun, *names: str, start: int = 0) -> dict[str, int]:
        """One micro-batch with these messages, as a task runs it; without messages what the driver runs."""
        worker.counts.clear()
        if names:
            worker.run([TopicEvent.of(one) for one in on_topic(*names, start=start)])
        else:
            worker.run_returned()
        return {how: events for how, events in worker.counts.items() if events}

    def parked(self) -> int:
        return self.ledger.parking.count("billing")
