"""Claims of handlers on events."""

from __future__ import annotations

from driftq.errors.kinds import FailedPrecondition, NotFound, Unavailable


class ClaimNotFound(NotFound):
    def __init__(self, handler: str, *, event_id: str) -> None:
        super().__init__(f"handler {handler!r} has no claim on event {event_id!r}")
        self.handler = handler
        self.event_id = event_id


class LeaseLost(FailedPrecondition):
    """The given fencing token is no longer current: another worker has the claim, or it is finished."""

    reason = "stale_lease"

    def __init__(self, what: str, *, held: int | None, given: int) -> None:
        now = "nothing is held" if held is None else f"token {held} is in force"
        super().__init__(f"the lease of {what} is lost: {now}, not {given}")
        self.what = what
        self.held = held
        self.given = given


class EventSuperseded(FailedPrecondition):
    """A newer event of the aggregate has been handled since the claim, and only the newest state counts."""

    reason = "superseded"

    def __init__(self, event_id: str, *, sequence: int, last_sequence: int) -> None:
        super().__init__(f"event {event_id!r} has sequence {sequence}; {last_sequence} is already done")
        self.event_id = event_id
        self.sequence = sequence
        self.last_sequence = last_sequence


class WrongClaimState(FailedPrecondition):
    """The claim's state does not allow this operation."""

    reason = "wrong_state"

    def __init__(self, handler: str, *, event_id: str, state: str, asked: str) -> None:
        super().__init__(f"cannot {asked} event {event_id!r} of handler {handler!r}: it is {state}")
        self.handler = handler
        self.event_id = event_id
        self.state = state
        self.asked = asked


class RegistryUnusable(Unavailable):
    """This server cannot use the registry that exists."""

    reason = "registry_unusable"

    def __init__(self, problem: str) -> None:
        super().__init__(f"the registry cannot be used: {problem}")
        self.problem = problem
