"""One turn of the engine: the stages that decide in it, what they decide with, and the commit they fill.

`engine.py` says how turns and commits follow each other. A stage sees of that only its `Turn`: it adds
records to `turn.journal`, which changes the state at once, and it hands everything that is meant for the
outside to `turn.reply` and `turn.deliver`, which hold it until those records are durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from driftq.core.keys import MessageRef
from driftq.errors import DriftQError
from driftq.log.frame import Frame
from driftq.server.histograms import Histograms, stopwatch
from driftq.server.requests import EngineRequest, Reply

if TYPE_CHECKING:
    from driftq.server.counters import Counters
    from driftq.server.deliver.outbox import DeliveryBatch, Outbox
    from driftq.server.stages import Stages
    from driftq.storage.journal import Journal

R = TypeVar("R", bound=EngineRequest)


class Stage(Protocol):
    """One part of every turn. A submitted request belongs to its stage until the stage has decided it."""

    @property
    def handles(self) -> tuple[type[EngineRequest], ...]:
        """The request types of this stage; no other stage has them."""
        ...

    @property
    def pending(self) -> bool:
        """Whether requests wait for a decision."""
        ...

    @property
    def next_at(self) -> int | None:
        """When the stage needs a turn even if nothing is submitted."""
        ...

    def submit(self, request: Any) -> None:
        """Queue a request of one of the types in `handles`."""
        ...

    def decide(self, turn: Turn) -> None:
        """Decide what is queued and what is due."""
        ...

    def reject(self, error: DriftQError) -> None:
        """Answer every queued request with this error."""
        ...


class RequestQueue(Generic[R]):
    """The queue of a stage: requests in the order of their submission."""

    def __init__(self) -> None:
        self.requests: list[R] = []

    @property
    def pending(self) -> bool:
        return bool(self.requests)

    @property
    def next_at(self) -> int | None:
        return None

    def submit(self, request: R) -> None:
        self.requests.append(request)

    def take(self) -> list[R]:
        """Empty the queue."""
        taken, self.requests = self.requests, []
        return taken

    def reject(self, error: DriftQError) -> None:
        for request in self.take():
            request.reply(error)


class Commit:
    """The answers and deliveries to release once the records of one turn are durable."""

    __slots__ = (
        "_began",
        "_decided_at",
        "_stored_before",
        "deliveries",
        "produce_requests",
        "produce_since",
        "replies",
    )

    def __init__(self, counters: Counters) -> None:
        self.replies: list[tuple[Reply, Any]] = []
        self.deliveries: list[tuple[Outbox, DeliveryBatch]] = []
        self.produce_requests = 0
        """Produce requests that this commit answers."""
        self.produce_since = 0.0
        """When the oldest of them was submitted."""
        self._decided_at = stopwatch()
        self._began = 0.0
        self._stored_before = counters.produced + counters.jobs_enqueued

    def begin(self, counters: Counters, frames: list[Frame]) -> None:
        """The frames are on their way to the disk."""
        counters.commits += 1
        counters.committed_bytes += sum([frame.size for frame in frames])
        stored = counters.produced + counters.jobs_enqueued - self._stored_before
        counters.histograms.commit_messages.observe(stored)
        self._began = stopwatch()

    def durable(self, histograms: Histograms) -> None:
        """The frames are on the disk."""
        histograms.commit_seconds.observe(stopwatch() - self._began)

    def measure(self, histograms: Histograms) -> None:
        """Everything is released: count how long requests and deliveries took."""
        if self.produce_requests or self.deliveries:
            now = stopwatch()
            if self.produce_requests:
                histograms.produce_seconds.observe(now - self.produce_since, times=self.produce_requests)
            if self.deliveries:
                histograms.dispatch_seconds.observe(now - self._decided_at, times=len(self.deliveries))

    def release(self) -> None:
        """The records are durable: answer, and send the deliveries."""
        for reply, answer in self.replies:
            reply(answer)
        for outbox, batch in self.deliveries:
            outbox.queue(batch)
        if self.deliveries:
            for outbox in dict.fromkeys([outbox for outbox, _ in self.deliveries]):
                outbox.flush()

    def fail(self, error: DriftQError) -> None:
        """The records are not durable: answer everything with this error, and deliver nothing."""
        for reply, _ in self.replies:
            reply(error)


class Turn:
    """The inputs of a stage's decisions, and the place for its answers. Not kept beyond `decide`."""

    __slots__ = (
        "_stages",
        "commit",
        "counters",
        "journal",
        "lookup",
        "now",
        "quiet",
        "state",
        "stopping",
        "wall",
    )

    def __init__(
        self,
        journal: Journal,
        stages: Stages,
        counters: Counters,
        *,
        now: int,
        wall: int,
        quiet: bool,
        stopping: bool,
    ) -> None:
        self.journal = journal
        self.state = journal.state
        self.lookup = stages.lookup
        self.counters = counters
        self.now = now
        """Engine time."""
        self.wall = wall
        """The machine's clock, for instants that users give."""
        self.quiet = quiet
        """A commit has just failed: decide what was submitted, and nothing else."""
        self.stopping = stopping
        """The server stops: begin nothing new."""
        self.commit = Commit(counters)
        self._stages = stages

    def reply(self, request: EngineRequest, answer: Any) -> None:
        """Answer the request when the commit is durable."""
        self.commit.replies.append((request.reply, answer))

    def reply_through(self, reply: Reply, answer: Any) -> None:
        """The same where the stage itself acts on the outcome of the commit before it answers."""
        self.commit.replies.append((reply, answer))

    def deliver(self, outbox: Outbox, batch: DeliveryBatch) -> None:
        """Send the batch when the commit is durable."""
        self.commit.deliveries.append((outbox, batch))

    def submit(self, request: EngineRequest) -> None:
        """Queue a request of the server itself: a later stage decides it in this turn."""
        self._stages.submit(request)

    def requeue_when_read(self, refs: list[MessageRef], request: EngineRequest) -> None:
        """Read these messages off the loop, then submit the request a second time to its stage.

        The request is answered with an error instead when the messages cannot be read, or when the server
        has stopped writing by then.
        """
        self._stages.requeue_when_read(refs, request)
