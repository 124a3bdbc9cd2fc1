"""Idempotency keys: the gate at produce, and effects under way."""

from __future__ import annotations

from driftq.errors.kinds import FailedPrecondition, NotFound, ResourceExhausted


class EffectNotFound(NotFound):
    def __init__(self, key: str) -> None:
        super().__init__(f"there is no effect with key {key!r}")
        self.key = key


class IdempotencyPending(FailedPrecondition):
    reason = "idempotency_pending"

    def __init__(self, key: str) -> None:
        super().__init__(f"a produce with idempotency key {key!r} is still under way")
        self.key = key


class IdempotencyMismatch(FailedPrecondition):
    reason = "idempotency_mismatch"

    def __init__(self, key: str, *, offset: int) -> None:
        super().__init__(f"idempotency key {key!r} was used for another payload (offset {offset})")
        self.key = key
        self.offset = offset


class IdempotencyFull(ResourceExhausted):
    reason = "idempotency_full"

    def __init__(self, *, keys: int) -> None:
        super().__init__(f"{keys} idempotency keys are live, which is the limit")
        self.keys = keys


class EffectHeld(FailedPrecondition):
    """An owner is at the effect: its outcome cannot be decided by another."""

    reason = "held"

    def __init__(self, key: str, *, owner: str) -> None:
        super().__init__(f"the effect with key {key!r} is under way at {owner}")
        self.key = key
        self.owner = owner


class EffectDone(FailedPrecondition):
    """The effect is committed: it cannot be tried again."""

    reason = "committed"

    def __init__(self, key: str) -> None:
        super().__init__(f"the effect with key {key!r} is committed")
        self.key = key


class StepUnknown(Exception):
    """A step began, and its process ended before it reported an outcome: only a person can tell."""

    def __init__(self, run_id: str, step: str, *, owner: str) -> None:
        super().__init__(
            f"step {step!r} of run {run_id!r} was begun by {owner}, which did not report an outcome: "
            "find out whether it happened, then run driftq step resolve"
        )
        self.run_id = run_id
        self.step = step
        self.owner = owner


class StepHeld(Exception):
    """Another process is at the step."""

    def __init__(self, run_id: str, step: str, *, owner: str) -> None:
        super().__init__(f"step {step!r} of run {run_id!r} is under way at {owner}")
        self.run_id = run_id
        self.step = step
        self.owner = owner


class StepUnfinished(Exception):
    """The block of a step ended without a result and without an error."""

    def __init__(self, run_id: str, step: str) -> None:
        super().__init__(f"the block of step {step!r} of run {run_id!r} ended without step.finish(result)")
        self.run_id = run_id
        self.step = step


class EffectSuperseded(FailedPrecondition):
    """The grant was taken over or has expired: its holder can no longer finish."""

    reason = "superseded"

    def __init__(self, *, given: int, held: int | None) -> None:
        super().__init__(f"token {given} is not the current one")
        self.given = given
        self.held = held
