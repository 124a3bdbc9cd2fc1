"""The facts of one message in one group: its latest delivery, its lease, and whether it is settled."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from driftq.core.decide.backoff import nack_delay_ms
from driftq.errors import AlreadySettled, DriftQError, FailedPrecondition, StaleAttempt, Unavailable
from driftq.testing.checkers import Circumstances, require


class SettledFact(Enum):
    """Whether a message is settled for a group."""

    NO = auto()
    MAYBE = auto()
    """An ack was not answered, or not confirmed."""
    YES = auto()


@dataclass(slots=True)
class Track:
    """One message in one group. The lease's end is known within the run's slack: not before, not after."""

    name: str
    partition: int
    attempt: int = 0
    owner: str = ""
    owners: set[str] = field(default_factory=set)
    epoch: int = 0
    sent_at: int = 0
    ends_from: int = 0
    ends_by: int = 0
    loose: bool = False
    """The delivery may have been ended by something other than its lease."""
    again_from: int = 0
    """It cannot be delivered again before this."""
    errors: set[str] = field(default_factory=lambda: {""})
    settled: SettledFact = SettledFact.NO
    unstarted: int = 0
    """Deliveries that may have been returned unstarted, and do not count for the backoff."""
    late_to: tuple[str, int] | None = None
    """An owner that may still be sent a delivery which its own ack has overtaken, until the next crash."""
    tickets: list[Ticket] = field(default_factory=list)

    def delivered(
        self, *, owner: str, attempt: int, lease_ms: int, epoch: int, error: str, at: int, slack: int
    ) -> None:
        """A new delivery is the current one."""
        self.attempt, self.owner, self.epoch, self.sent_at = attempt, owner, epoch, at
        self.owners.add(owner)
        self.ends_from, self.ends_by = at + lease_ms - slack, at + lease_ms
        self.again_from = self.ends_from
        self.loose = False
        self.errors = {error}

    def surely_held(self, now: int) -> bool:
        return self.settled is SettledFact.NO and not self.loose and not self.tickets and now < self.ends_from

    def errors_after_lease(self) -> set[str]:
        """What last_error may be if nothing but the lease's end ended the delivery."""
        return {error or "ack_timeout" for error in self.errors}

    def shake(self) -> None:
        """Something may have ended the current delivery."""
        self.loose = True
        self.again_from = 0
        for ticket in self.tickets:
            ticket.sure = False


class Ask(Enum):
    """A kind of request about a delivery."""

    ACK = auto()
    NACK = auto()
    EXTEND = auto()


@dataclass(slots=True, eq=False, kw_only=True)
class Ticket:
    """A request about a delivery that waits for its answer."""

    track: Track
    ask: Ask
    owner: str
    attempt: int | None
    asked_at: int
    sure: bool
    """It has to succeed."""
    hopeless: bool
    """It must not succeed unless the message was settled before."""
    settled: SettledFact
    """Whether the message was settled when this was sent."""
    contended: bool
    """An ack of the same message was under way at the same time."""
    reason: str = ""
    lease_ms: int = 0
    started: bool = True

    @property
    def may_overtake(self) -> bool:
        """Whether it may settle a delivery that is still on its way to the same owner."""
        unknown = self.settled is not SettledFact.YES and not self.sure
        return self.ask is Ask.ACK and self.attempt is None and unknown

    def __str__(self) -> str:
        about = f"attempt {self.attempt} of {self.track.attempt}"
        return f"{self.ask.name.lower()} by {self.owner} of {self.track.name}, {about}"


class SettledChecker:
    """Observes acks, nacks and extensions with their answers."""

    def __init__(self, circumstances: Circumstances) -> None:
        self._run = circumstances

    def asked(
        self,
        ask: Ask,
        track: Track,
        *,
        owner: str,
        attempt: int | None,
        now: int,
        reason: str = "",
        lease_ms: int = 0,
        started: bool = True,
    ) -> Ticket:
        """A request about a message; its answer comes with the ticket."""
        current = owner == track.owner and attempt in (None, track.attempt)
        over = attempt is not None and (attempt < track.attempt or now >= track.ends_by)
        ticket = Ticket(
            track=track,
            ask=ask,
            owner=owner,
            attempt=attempt,
            asked_at=now,
            sure=current and track.surely_held(now + self._run.slack_ms),
            hopeless=over or owner not in track.owners,
            settled=track.settled,
            contended=any(other.ask is Ask.ACK for other in track.tickets),
            reason=reason,
            lease_ms=lease_ms,
            started=started,
        )
        track.unstarted += not started
        for other in track.tickets:
            other.contended |= ask is Ask.ACK
            other.sure &= ask is Ask.ACK and other.ask is Ask.ACK
        if ask is Ask.NACK:
            track.shake()
        elif ask is Ask.EXTEND:
            track.ends_from = min(track.ends_from, now + lease_ms)
            track.again_from = min(track.again_from, track.ends_from)
            track.ends_by = max(track.ends_by, now + self._run.slack_ms + lease_ms)
        track.tickets.append(ticket)
        return ticket

    def answered(self, ticket: Ticket, answer: DriftQError | None) -> None:
        """Observe the answer to a request."""
        track = ticket.track
        track.tickets.remove(ticket)
        if answer is None:
            self._accepted(ticket)
        elif isinstance(answer, Unavailable):
            self.lost(ticket)
        else:
            self._refused(ticket, answer)

    def lost(self, ticket: Ticket) -> None:
        """The request may or may not have been kept."""
        track = ticket.track
        if ticket.ask is Ask.ACK and track.settled is SettledFact.NO:
            track.settled = SettledFact.MAYBE
        if ticket.ask is Ask.NACK:
            track.errors = track.errors | {ticket.reason, "ack_timeout"}

    def _accepted(self, ticket: Ticket) -> None:
        track = ticket.track
        if ticket.settled is SettledFact.NO and not ticket.contended:
            require(not ticket.hopeless, "A7", f"{track.name}: accepted: {ticket}")
        if ticket.ask is Ask.ACK:
            if ticket.may_overtake:
                track.late_to = (ticket.owner, self._run.crashes)
            track.settled = SettledFact.YES
            return
        require(
            ticket.settled is not SettledFact.YES, "A1", f"{track.name}: accepted after its ack: {ticket}"
        )
        alone = ticket.attempt == track.attempt and not track.tickets
        if ticket.ask is Ask.NACK and alone:
            tries = max(1, track.attempt - track.unstarted)
            track.again_from = ticket.asked_at + (nack_delay_ms(tries) if ticket.started else 0)
            track.errors = {ticket.reason} if ticket.reason else track.errors
        elif ticket.ask is Ask.NACK:
            self.lost(ticket)
        elif alone and not track.loose:
            track.ends_from = track.again_from = ticket.asked_at + ticket.lease_ms

    @staticmethod
    def _refused(ticket: Ticket, answer: DriftQError) -> None:
        name = ticket.track.name
        require(isinstance(answer, FailedPrecondition), "A1", f"{name}: {answer!r}")
        require(not ticket.sure, "G5", f"{name}: the holder was refused: {answer}: {ticket}")
        if ticket.ask is Ask.ACK:
            require(
                ticket.settled is not SettledFact.YES, "A2", f"{name} was acked before: {answer}: {ticket}"
            )
        if isinstance(answer, StaleAttempt):
            require(ticket.attempt != answer.held, "A7", f"{name}: {answer.held} is called stale")
        if isinstance(answer, AlreadySettled) and not ticket.contended:
            require(ticket.settled is not SettledFact.NO, "A1", f"{name} was never acked: {ticket}")
